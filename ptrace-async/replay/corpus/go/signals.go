// Signals come through a channel.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	signals := make(chan os.Signal, 10)
	signal.Notify(signals, syscall.SIGUSR1)
	for i := 0; i < 5; i++ {
		syscall.Kill(os.Getpid(), syscall.SIGUSR1)
		fmt.Println(<-signals, time.Now().UnixNano())
	}
}
