// Goroutines that take numbers from a channel, and collect what they compute under a lock.
package main

import (
	"fmt"
	"os"
	"strconv"
	"sync"
)

func main() {
	workers, _ := strconv.Atoi(os.Args[1])
	count, _ := strconv.Atoi(os.Args[2])
	numbers := make(chan int, workers)
	results := map[int]int{}
	var lock sync.Mutex
	var all sync.WaitGroup
	for i := 0; i < workers; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for number := range numbers {
				sum := 0
				for k := 0; k < number; k++ {
					sum += k % 7
				}
				lock.Lock()
				results[number%100] += sum
				lock.Unlock()
			}
		}()
	}
	for i := 0; i < count; i++ {
		numbers <- i
	}
	close(numbers)
	all.Wait()
	fmt.Println(results)
}
