package httpcheck

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// frames plays an HTTP/2 server by hand.
func frames(t *testing.T, f func(fr *http2.Framer, hpackBlock func(...string) []byte, c net.Conn)) (Options, *server) {
	cert, pool := goodCertificate(t)
	s := serve(t, overTLS(cert, []string{"h2"}, 0, func(_ int, c net.Conn) {
		preface := make([]byte, len(http2.ClientPreface))
		if _, err := io.ReadFull(c, preface); err != nil {
			return
		}
		fr := http2.NewFramer(c, c)
		fr.AllowIllegalWrites = true
		fr.WriteSettings()
		for { // up to the request
			frame, err := fr.ReadFrame()
			if err != nil {
				return
			}
			if frame.Header().Type == http2.FrameHeaders {
				break
			}
		}
		var b bytes.Buffer
		enc := hpack.NewEncoder(&b)
		f(fr, func(kv ...string) []byte {
			b.Reset()
			for i := 0; i < len(kv); i += 2 {
				enc.WriteField(hpack.HeaderField{Name: kv[i], Value: kv[i+1]})
			}
			return bytes.Clone(b.Bytes())
		}, c)
		io.Copy(io.Discard, c) // until the client goes
	}))
	o := options(s.url("https", "/"))
	o.RootCAs = pool
	return o, s
}

func TestHostileHTTP2(t *testing.T) {
	type block = func(...string) []byte
	headers := func(fr *http2.Framer, b []byte, end bool) {
		fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: b, EndHeaders: true, EndStream: end})
	}
	tests := []struct {
		name        string
		f           func(fr *http2.Framer, b block, c net.Conn)
		phase, kind string
	}{
		{"HTTP/1 in answer", func(_ *http2.Framer, _ block, c net.Conn) { io.WriteString(c, ok("x")) }, "wait", "protocol"},
		{"reset", func(fr *http2.Framer, _ block, _ net.Conn) { fr.WriteRSTStream(1, http2.ErrCodeRefusedStream) }, "wait", "reset"},
		{"goaway", func(fr *http2.Framer, _ block, _ net.Conn) { fr.WriteGoAway(0, http2.ErrCodeEnhanceYourCalm, nil) }, "wait", "closed"},
		{"body first", func(fr *http2.Framer, _ block, _ net.Conn) { fr.WriteData(1, true, []byte("x")) }, "wait", "protocol"},
		{"push", func(fr *http2.Framer, b block, _ net.Conn) {
			fr.WritePushPromise(http2.PushPromiseParam{StreamID: 1, PromiseID: 2, BlockFragment: b(":method", "GET"), EndHeaders: true})
		}, "wait", "protocol"},
		{"no status", func(fr *http2.Framer, b block, _ net.Conn) { headers(fr, b("server", "x"), true) }, "wait", "protocol"},
		{"bad status", func(fr *http2.Framer, b block, _ net.Conn) { headers(fr, b(":status", "20000000"), true) }, "wait", "protocol"},
		{"header bomb", func(fr *http2.Framer, b block, _ net.Conn) {
			fields := []string{":status", "200"}
			for range 30 { // one entry of the dynamic table, named again and again
				fields = append(fields, "x", strings.Repeat("y", 3000))
			}
			headers(fr, b(fields...), true)
		}, "wait", "too-large"},
		{"endless continuation", func(fr *http2.Framer, b block, _ net.Conn) {
			fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: b(":status", "200")})
			for fr.WriteContinuation(1, false, b("x", strings.Repeat("y", 1000))) == nil {
			}
		}, "wait", "too-large"},
		{"endless empty continuation", func(fr *http2.Framer, b block, _ net.Conn) {
			fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: b(":status", "200")})
			for fr.WriteContinuation(1, false, nil) == nil {
			}
		}, "wait", "too-large"},
		{"ping flood", func(fr *http2.Framer, _ block, c net.Conn) {
			go io.Copy(io.Discard, c) // ends with the connection
			for fr.WritePing(false, [8]byte{}) == nil {
			}
		}, "wait", "protocol"},
		{"endless interim responses", func(fr *http2.Framer, b block, _ net.Conn) {
			for fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: b(":status", "103"), EndHeaders: true}) == nil {
			}
		}, "wait", "protocol"},
		{"closed within the body", func(fr *http2.Framer, b block, c net.Conn) {
			headers(fr, b(":status", "200"), false)
			fr.WriteData(1, false, []byte("x"))
			c.Close()
		}, "receive", "closed"},
		{"endless body", func(fr *http2.Framer, b block, _ net.Conn) {
			headers(fr, b(":status", "200"), false)
			for fr.WriteData(1, false, make([]byte, 16000)) == nil {
			}
		}, "", ""},
		{"frames of other streams", func(fr *http2.Framer, b block, _ net.Conn) {
			fr.WriteWindowUpdate(0, 10)
			fr.WritePing(true, [8]byte{})
			fr.WriteRawFrame(0xbe, 0, 0, []byte("grease"))
			headers(fr, b(":status", "200"), false)
			fr.WriteGoAway(1, http2.ErrCodeNo, nil)
			fr.WriteData(1, true, []byte("x"))
		}, "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o, _ := frames(t, tt.f)
			o.MaxBody, o.MaxHeader = 1<<20, 32<<10
			x := onlyExchange(t, run(t, o))
			var phase, kind string
			if x.Failure != nil {
				phase, kind = x.Failure.Phase, x.Failure.Kind
			}
			if diff := cmp.Diff([]string{tt.phase, tt.kind}, []string{phase, kind}); diff != "" {
				t.Errorf("phase, kind (-want +got):\n%s\n%+v", diff, x.Failure)
			}
		})
	}
}
