package wire

import (
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// extended is n bytes and an extension structure with labels.
func extended(n int, labels ...Label) []byte {
	return appendExtensions(make([]byte, n), labels)
}

// Extensions of RFC 4884 are no part of the quote, whatever their length field
// says, and padding is none either; the labels are read all the same
// (trippy#804, trippy#1287: a malformed length lost the reply, or panicked).
func TestMalformedExtensionLengthLosesNothing(t *testing.T) {
	labels := []icmp.Extension{&icmp.MPLSLabelStack{Class: 1, Type: 1, Labels: []icmp.MPLSLabel{
		{Label: 16014, TC: 5, TTL: 1}, {Label: 1<<20 - 1, S: true, TTL: 255}}}}
	want := []Label{{Value: 16014, TC: 5, TTL: 1}, {Value: 1<<20 - 1, Bottom: true, TTL: 255}}
	for _, v6 := range []bool{false, true} {
		f := testFlow(UDP, v6)
		quote := build(t, f, Probe{Seq: 5, TTL: 1})
		m := icmp.Message{Type: ipv4.ICMPTypeTimeExceeded, Body: &icmp.TimeExceeded{Data: quote, Extensions: labels}}
		lengthAt := ipv4Len + 5
		if v6 {
			m.Type, lengthAt = ipv6.ICMPTypeTimeExceeded, ipv6Len+4
		}
		pkt := icmpPacket(t, m, v6)
		for length := range 256 {
			b := append([]byte(nil), pkt...)
			b[lengthAt] = byte(length)
			if !v6 {
				b[22], b[23] = 0, 0
				setICMPChecksum(b, b[ipv4Len:])
			}
			r, err := ParseReply(b, f)
			if err != nil || r.Seq != 5 || r.QuotedLen != 16 || r.Kind != TimeExceeded || r.TTL != 60 {
				t.Errorf("IPv6 %v, length field %d: %+v, %v", v6, length, r, err)
			}
			// A length that points behind the quote but within the message
			// is the sender's word; there are no labels there.
			inside := length*4 > 128 && length*4 <= len(b)-ipv4Len-icmpLen
			if v6 {
				inside = length*8 > 128 && length*8 <= len(b)-ipv6Len-icmpLen
			}
			if diff := cmp.Diff(want, r.Labels); diff != "" && !inside {
				t.Errorf("IPv6 %v, length field %d, labels (-want +got):\n%s", v6, length, diff)
			}
		}
	}
}

func TestSplitExtensions(t *testing.T) {
	label := Label{Value: 300, TC: 3, Bottom: true, TTL: 9}
	edit := func(b []byte, at int, v ...byte) []byte {
		b = append([]byte(nil), b...)
		copy(b[at:], v)
		return b
	}
	at128, at40 := extended(128, label), extended(40, label)
	two := append(extended(128), at128[128+extHeaderLen:]...) // an object without entries in front
	binary.BigEndian.PutUint16(two[130:], 0)
	deep := make([]Label, 40)
	tests := []struct {
		name        string
		data        []byte
		length, cut int
		quote       int
		labels      int
	}{
		{"length right", at128, 128, 0, 128, 1},
		{"no length, offset 128", at128, 0, 0, 128, 1},
		{"no length, less what the kernel cut off", extended(100, label), 0, 28, 100, 1},
		{"the kernel's offset", extended(100, label), 100, 28, 100, 1},
		{"length below 128, labels there", at40, 40, 0, 40, 1},
		{"length below 128, labels at 128", at128, 40, 0, 128, 1},
		{"length beyond the message", at128, 1020, 0, 128, 1},
		{"length negative", at128, -4, 0, 128, 1},
		{"no extensions", make([]byte, 128), 0, 0, 128, 0},
		{"length without extensions", make([]byte, 128), 128, 0, 128, 0},
		{"a longer quote without extensions", make([]byte, 548), 0, 0, 548, 0},
		{"checksum 0 was not computed", edit(at128, 130, 0, 0), 128, 0, 128, 1},
		{"checksum wrong, length right", edit(at128, 130, 1, 2), 128, 0, 128, 0},
		{"checksum wrong, no length", edit(at128, 130, 1, 2), 0, 0, len(at128), 0},
		{"version 1", edit(at128, 128, 0x10, 0, 0, 0), 0, 0, len(at128), 0},
		{"object length 0", edit(edit(at128, 130, 0, 0), 132, 0, 0), 128, 0, 128, 0},
		{"object length beyond the message", edit(edit(at128, 130, 0, 0), 132, 0xff, 0xff), 128, 0, 128, 0},
		{"entry cut short", edit(edit(at128, 130, 0, 0), 132, 0, 7), 128, 0, 128, 0},
		{"another class", edit(edit(at128, 130, 0, 0), 134, 2), 128, 0, 128, 0},
		{"the second object", two, 128, 0, 128, 1},
		{"deeper than any network", extended(128, deep...), 128, 0, 128, maxLabels},
		{"cut within the header", at128[:134], 128, 0, 128, 0},
		{"empty", nil, 128, 0, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			quote, labels := SplitExtensions(tt.data, tt.length, tt.cut)
			if len(quote) != tt.quote || len(labels) != tt.labels {
				t.Fatalf("%d bytes of quote and labels %+v, want %d and %d", len(quote), labels, tt.quote, tt.labels)
			}
			if tt.labels == 1 && labels[0] != label {
				t.Errorf("label %+v, want %+v", labels[0], label)
			}
		})
	}
}

// What ErrorFor writes is what golang.org/x/net reads, and what ParseReply does.
func TestErrorForWithLabels(t *testing.T) {
	labels := []Label{{Value: 16014, TC: 5, TTL: 1}, {Value: 1<<20 - 1, Bottom: true, TTL: 255}}
	theirs := []icmp.MPLSLabel{{Label: 16014, TC: 5, TTL: 1}, {Label: 1<<20 - 1, S: true, TTL: 255}}
	for _, v6 := range []bool{false, true} {
		for _, m := range []Message{{}, {Quote: 8}, {NoLength: true}} {
			f := testFlow(TCP, v6)
			m.From, m.Kind, m.Labels = router4, TimeExceeded, labels
			number := numICMP
			if v6 {
				m.From, number = router6, numICMPv6
			}
			b, err := ErrorFor(nil, build(t, f, Probe{Seq: 8, Size: 600}), m)
			if err != nil {
				t.Fatal(err)
			}
			r, err := ParseReply(b, f)
			want := originalLen - f.ipLen()
			if m.Quote > 0 {
				want = m.Quote // the rest is padding
			}
			if err != nil || r.Seq != 8 || r.QuotedLen != want || r.Kind != TimeExceeded {
				t.Errorf("IPv6 %v, %+v: %+v, %v", v6, m, r, err)
			}
			if diff := cmp.Diff(labels, r.Labels); diff != "" {
				t.Errorf("IPv6 %v, labels (-want +got):\n%s", v6, diff)
			}
			if m.NoLength {
				continue
			}
			msg, err := icmp.ParseMessage(number, b[f.ipLen():])
			if err != nil {
				t.Fatal(err)
			}
			body := msg.Body.(*icmp.TimeExceeded)
			if len(body.Extensions) != 1 {
				t.Fatalf("x/net reads %d extensions", len(body.Extensions))
			}
			if diff := cmp.Diff(theirs, body.Extensions[0].(*icmp.MPLSLabelStack).Labels); diff != "" {
				t.Errorf("x/net's labels (-want +got):\n%s", diff)
			}
		}
	}
}
