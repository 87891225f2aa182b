// Timers, tickers and time-outs.
package main

import (
	"fmt"
	"time"
)

func main() {
	start := time.Now()
	ticker := time.NewTicker(2 * time.Millisecond)
	for i := 0; i < 4; i++ {
		<-ticker.C
	}
	select {
	case <-make(chan int):
	case <-time.After(3 * time.Millisecond):
		fmt.Println("time-out after", time.Since(start))
	}
}
