// A web server and its clients in one program.
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
)

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "hello %s from %s", r.URL.Path, r.RemoteAddr)
	}))
	var group sync.WaitGroup
	for i := 0; i < 4; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			answer, err := http.Get(fmt.Sprintf("http://%s/%d", listener.Addr(), i))
			if err != nil {
				panic(err)
			}
			text, _ := io.ReadAll(answer.Body)
			fmt.Println(string(text))
		}()
	}
	group.Wait()
}
