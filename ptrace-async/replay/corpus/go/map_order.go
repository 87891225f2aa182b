// The order of a map and of a select, which differ from run to run.
package main

import "fmt"

func main() {
	values := map[int]int{}
	for i := 0; i < 50; i++ {
		values[i] = i * i
	}
	for key := range values {
		fmt.Print(key, " ")
	}
	one, other := make(chan int, 100), make(chan int, 100)
	for i := 0; i < 100; i++ {
		one <- i
		other <- i
	}
	for i := 0; i < 100; i++ {
		select {
		case <-one:
			fmt.Print("a")
		case <-other:
			fmt.Print("b")
		}
	}
	fmt.Println()
}
