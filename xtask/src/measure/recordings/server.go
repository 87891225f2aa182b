// A server and its clients, in one process: the order of the requests shows.
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
)

func main() {
	var lock sync.Mutex
	var order []string
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lock.Lock()
		order = append(order, r.URL.Path)
		lock.Unlock()
		fmt.Fprintf(w, "hello from %s", r.URL.Path)
	}))
	var clients sync.WaitGroup
	for client := 0; client < 4; client++ {
		clients.Add(1)
		go func() {
			defer clients.Done()
			for request := 0; request < 50; request++ {
				answer, err := http.Get(fmt.Sprintf("http://%s/%d/%d", listener.Addr(), client, request))
				if err != nil {
					panic(err)
				}
				io.Copy(io.Discard, answer.Body)
				answer.Body.Close()
			}
		}()
	}
	clients.Wait()
	fmt.Println(len(order), order)
}
