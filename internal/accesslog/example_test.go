package accesslog_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/whyslow/whyslow/internal/accesslog"
)

// Who asked how often, and how many connections that took at least.
func Example() {
	const log = `192.0.2.1 - - [01/Dec/2026:11:00:00 +0000] 0 "GET / HTTP/1.1" 200
192.0.2.1 - - [01/Dec/2026:11:00:01 +0000] 1 "GET /style.css HTTP/1.1" 200
192.0.2.1 - - [01/Dec/2026:11:00:0
2001:db8::1 - - [01/Dec/2026:12:00:03 +0100] 0 "GET / HTTP/1.1" 200
`
	format, err := accesslog.ParseFormat(`LogFormat "%h %l %u %t %k \"%r\" %>s"`, accesslog.CompileOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	reader := accesslog.NewReader(ctx, accesslog.Options{Format: format}, accesslog.Stdin(strings.NewReader(log)))
	defer reader.Close()
	type client struct{ requests, connections int }
	tally := accesslog.NewTally[client](0)
	for record, err := range accesslog.Sorted(ctx, nil, reader) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if c := tally.At(record.Client); c != nil {
			c.requests++
			if record.Has.Has(accesslog.FieldKeepAlive) && record.KeepAlive == 0 {
				c.connections++
			}
		}
	}
	for addr, c := range tally.All() {
		fmt.Println(addr, c.requests, c.connections)
	}
	for _, b := range reader.Stats().Kept {
		fmt.Printf("%s:%d %v\n", b.Source, b.Number, b.Fault)
	}
	// Output:
	// 192.0.2.1 2 1
	// 2001:db8::1 1 1
	// -:3 ends before the format does
}
