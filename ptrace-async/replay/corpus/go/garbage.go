// A program that makes garbage, which is collected in threads of the runtime.
package main

import (
	"fmt"
	"runtime"
)

type node struct {
	left, right *node
}

func tree(depth int) *node {
	if depth == 0 {
		return &node{}
	}
	return &node{tree(depth - 1), tree(depth - 1)}
}

func count(n *node) int {
	if n == nil {
		return 0
	}
	return 1 + count(n.left) + count(n.right)
}

func main() {
	sum := 0
	for i := 0; i < 20; i++ {
		sum += count(tree(12))
	}
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	fmt.Println(sum, stats.NumGC, stats.PauseTotalNs)
}
