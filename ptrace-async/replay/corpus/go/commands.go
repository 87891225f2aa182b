// Commands with their output.
package main

import (
	"fmt"
	"os/exec"
)

func main() {
	for i := 0; i < 3; i++ {
		text, err := exec.Command("sh", "-c", "echo $$; exit 2").Output()
		fmt.Printf("%s%v\n", text, err)
	}
}
