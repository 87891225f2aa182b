// Goroutines that send to one channel, in whatever order.
package main

import (
	"fmt"
	"runtime"
	"sync"
)

func main() {
	numbers := make(chan int)
	var group sync.WaitGroup
	for me := 0; me < 4; me++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for i := 0; i < 50; i++ {
				numbers <- me*100 + i
				if i%10 == 0 {
					runtime.Gosched()
				}
			}
		}()
	}
	go func() { group.Wait(); close(numbers) }()
	for number := range numbers {
		fmt.Print(number, " ")
	}
	fmt.Println()
}
