package simnet

import (
	"slices"

	"github.com/whyslow/whyslow/internal/wire"
)

// LSP is a label-switched path, RFC 3031: whatever its first node sends to its
// second goes on to the last, which alone looks at addresses again. The
// routers between show their label in the errors they send, RFC 4950, and
// since a label says nothing about the way back, their errors first travel to
// the end of the path: seen from its front, all of it is equally far.
type LSP struct {
	Path []NodeID // from ingress to egress, neighbours all
	// Label is what the second router receives; each one behind it receives
	// one more. The last is not labelled (penultimate hop popping). Zero
	// means 16, the first that is not reserved.
	Label uint32
	// Hide keeps the TTL as it is along the path, and so hides the routers
	// between its ends, RFC 3443 section 3.1 (the pipe model).
	Hide bool
	// Direct sends the errors straight back, as a router does that knows the
	// way.
	Direct bool
}

// AddLSP adds a label-switched path.
func (n *Net) AddLSP(l LSP) {
	if len(l.Path) < 3 {
		panic("simnet: a label-switched path needs a router between its ends")
	}
	if l.Label == 0 {
		l.Label = 16
	}
	l.Path = slices.Clone(l.Path)
	for i, id := range l.Path {
		nd := n.node(id)
		nd.aware = true
		if i+1 < len(l.Path) && nd.linkTo(l.Path[i+1]) == nil {
			panic("simnet: a label-switched path of nodes that are not connected")
		}
		if i == 0 {
			nd.mangles = true
			nd.lsps = append(nd.lsps, &l)
		}
	}
}

// behind returns the node after id on the path, Nowhere at its end and off it.
func (l *LSP) behind(id NodeID) NodeID {
	if i := slices.Index(l.Path, id); i >= 0 && i+1 < len(l.Path) {
		return l.Path[i+1]
	}
	return Nowhere
}

// push puts a packet that leaves on a link into the path that begins there.
func (nd *node) push(l *link, p *packet) {
	for _, s := range nd.lsps {
		if s.Path[1] == l.to.id && p.lsp == nil {
			p.lsp = s
		}
	}
}

// labels returns the label stack that an error about a packet shows.
func (nd *node) labels(p *packet) []wire.Label {
	if p.lsp == nil {
		return nd.Labels
	}
	i := slices.Index(p.lsp.Path, nd.id)
	if i <= 0 {
		return nd.Labels
	}
	return []wire.Label{{Value: p.lsp.Label + uint32(i) - 1, Bottom: true, TTL: uint8(p.view.TTL)}}
}
