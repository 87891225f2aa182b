// What the programs of the corpus share. Each first prints something that differs from
// run to run, and CHECKs for itself that what it shows happens.
#pragma once
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define CHECK(condition)                                                          \
    do {                                                                          \
        if (!(condition)) {                                                       \
            fprintf(stderr, "%s:%d: %s (errno %d)\n", __FILE__, __LINE__,         \
                    #condition, errno);                                           \
            _exit(99);                                                            \
        }                                                                         \
    } while (0)

// A call that must succeed, and its result.
#define OK(call)                                                                  \
    ({                                                                            \
        __typeof__(call) result_ = (call);                                        \
        CHECK(result_ != (__typeof__(call))-1);                                   \
        result_;                                                                  \
    })

static inline long now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1000000000L + at.tv_nsec;
}

static inline void pause_ms(long ms)
{
    struct timespec left = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&left, &left))
        ;
}

// Installs a handler.
static inline void handle(int signal, void (*handler)(int), int flags)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    OK(sigaction(signal, &action, NULL));
}

static inline void handle_info(int signal, void (*handler)(int, siginfo_t *, void *), int flags)
{
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = flags | SA_SIGINFO};
    OK(sigaction(signal, &action, NULL));
}

// SIGALRM again and again: a single one could come before the call that it is to interrupt.
// 0 ends it.
static inline void alarm_every_ms(long ms)
{
    struct timeval time = {ms / 1000, ms % 1000 * 1000};
    struct itimerval timer = {time, time};
    OK(setitimer(ITIMER_REAL, &timer, NULL));
}

// The status of a child that has exited.
static inline int reap(pid_t child)
{
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    return WEXITSTATUS(status);
}

__attribute__((constructor)) static void chance(void)
{
    int local;
    setvbuf(stdout, NULL, _IOLBF, 1 << 12);
    printf("process %d, stack %p, time %ld\n", getpid(), (void *)&local, now());
}
