// Nothing is wrong with it: what Go's runtime does is not told as if it were.
// compiler: go build -o
// asks: why --thorough
// symptom: none
// says: Not followed: goroutines
// never: undefined value
// never: came between two of one call
package main

import (
	"fmt"
	"runtime"
)

func main() {
	s := []string{}
	for i := 0; i < 1000; i++ {
		s = append(s, fmt.Sprint("x", i))
	}
	runtime.GC()
	fmt.Println(len(s))
}
