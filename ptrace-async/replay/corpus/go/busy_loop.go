// A goroutine in a loop without a call, which the runtime interrupts by signals.
package main

import (
	"fmt"
	"runtime"
	"time"
)

func main() {
	runtime.GOMAXPROCS(1)
	done := false
	go func() {
		time.Sleep(5 * time.Millisecond)
		done = true
		fmt.Println("interrupted")
	}()
	count := 0
	for start := time.Now(); ; count++ {
		if count%1000000 == 0 && time.Since(start) > 100*time.Millisecond {
			break
		}
	}
	fmt.Println(done, count)
}
