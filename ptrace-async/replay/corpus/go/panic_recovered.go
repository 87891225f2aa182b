// A nil pointer is used; the fault becomes a panic, which is recovered.
package main

import (
	"fmt"
	"os"
)

type thing struct{ value int }

func use(t *thing) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("recovered in %d: %v", os.Getpid(), r)
		}
	}()
	t.value++
	return nil
}

func main() {
	for i := 0; i < 5; i++ {
		fmt.Println(use(nil))
	}
}
