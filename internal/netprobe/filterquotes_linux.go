package netprobe

import (
	"encoding/binary"

	"github.com/whyslow/whyslow/internal/wire"
	"golang.org/x/sys/unix"
)

// filterQuotes lets through what can be an answer to a flow, of the ICMP types
// that filterICMP does. A raw ICMP socket is handed every message the host
// receives, and of many that are open each would be woken for all the others'.
//
// What is turned away is plainly another's: the reply to another echo, or a
// quote of another protocol or of a packet from our own address with another
// port or identifier. What a quote shows from another address may be ours,
// translated, and is looked at.
func filterQuotes(fd int, f *family, flow wire.Flow) error {
	prog := quoteFilter(f, flow)
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]})
}

// quoteFilter is the program of filterQuotes. Its X is where the ICMP header
// begins: IPv6 sockets are handed no IP header.
func quoteFilter(f *family, flow wire.Flow) []unix.SockFilter {
	const (
		quote = 8 // of the ICMP header, behind which the quote begins
		pass  = 0xffff
		drop  = 0
	)
	x := unix.SockFilter{Code: unix.BPF_LDX | unix.BPF_B | unix.BPF_MSH} // 4*(first byte&15)
	next, src := 9, 12                                                   // of a quoted header: its protocol and its source
	if f == family6 {
		x = unix.SockFilter{Code: unix.BPF_LDX | unix.BPF_W | unix.BPF_IMM}
		next, src = 6, 8
	}
	prog := []unix.SockFilter{x}
	load := func(size uint16, at int) {
		prog = append(prog, unix.SockFilter{Code: unix.BPF_LD | unix.BPF_IND | size, K: uint32(at)})
	}
	end := func(verdict uint32) {
		prog = append(prog, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: verdict})
	}
	// orElse goes on if the value loaded is want, else ends.
	orElse := func(want, verdict uint32) {
		prog = append(prog, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: want, Jt: 1})
		end(verdict)
	}

	echoes := []unix.SockFilter(nil)
	if flow.Proto == wire.ICMP {
		at := len(prog)
		load(unix.BPF_H, 4)
		orElse(uint32(flow.SrcPort), drop)
		end(pass)
		echoes, prog = append(echoes, prog[at:]...), prog[:at]
	} else {
		echoes = []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: drop}}
	}
	load(unix.BPF_B, 0)
	prog = append(prog, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: uint32(f.echoReply), Jf: uint8(len(echoes))})
	prog = append(prog, echoes...)

	port := quote + f.headerSize
	if flow.Proto == wire.ICMP {
		port += 4 // the identifier
	}
	if f == family4 {
		load(unix.BPF_B, quote)
		orElse(0x45, pass) // options: all is elsewhere
		load(unix.BPF_B, quote+next)
		orElse(protocolNumber(f, flow.Proto), drop)
	} else {
		load(unix.BPF_B, quote+next)
		orElse(protocolNumber(f, flow.Proto), pass) // extension headers may stand before ours
	}
	for b := flow.Src.AsSlice(); len(b) > 0; b = b[4:] {
		load(unix.BPF_W, quote+src)
		orElse(binary.BigEndian.Uint32(b), pass)
		src += 4
	}
	load(unix.BPF_H, port)
	orElse(uint32(flow.SrcPort), drop)
	end(pass)
	return prog
}

// protocolNumber is the number of a protocol in IP headers.
func protocolNumber(f *family, p wire.Protocol) uint32 {
	switch p {
	case wire.UDP:
		return unix.IPPROTO_UDP
	case wire.TCP:
		return unix.IPPROTO_TCP
	}
	return uint32(f.icmp)
}
