// uname, sysinfo, times, getrusage, sysconf, hostname.
#include "corpus.h"
#include <sys/sysinfo.h>
#include <sys/times.h>
#include <sys/utsname.h>

int main(void)
{
    struct utsname name;
    struct sysinfo info;
    struct tms times_;
    struct rusage usage;
    char host[64];
    OK(uname(&name));
    printf("%s %s\n", name.release, name.machine);
    OK(sysinfo(&info));
    printf("up %ld, %lu free, load %lu\n", info.uptime, info.freeram, info.loads[0]);
    printf("%ld\n", (long)times(&times_));
    OK(getrusage(RUSAGE_SELF, &usage));
    OK(getrusage(RUSAGE_CHILDREN, &usage));
    OK(getrusage(RUSAGE_THREAD, &usage));
    printf("%ld faults, %ld KiB\n", usage.ru_minflt, usage.ru_maxrss);
    printf("%ld processors, %ld pages\n", sysconf(_SC_NPROCESSORS_ONLN), sysconf(_SC_AVPHYS_PAGES));
    OK(gethostname(host, sizeof host));
    double loads[3];
    getloadavg(loads, 3);
}
