// Package delegation follows a name from the root of the DNS to the servers
// that hold it, as a resolver with an empty cache does, and asks every server
// on the way whether it does its part.
//
// A resolver hides which authority it waited for: a dead name server shows up
// as an answer that takes 0.4 s or 1.5 s longer now and then, a stale
// signature as SERVFAIL. Here each server of each zone is asked itself, over
// UDP and TCP, IPv4 and IPv6, so that a fault has an address.
//
// # Limits
//
// Zones, servers, queries and time are bounded, and no question is put to a
// server twice, except to measure loss and spread. Questions are whole names:
// QNAME minimisation (RFC 9156) would only show more of the same servers.
//
// The servers are third parties, but only those that a resolver would ask for
// the same name. Names that the public root cannot know are not sent there.
//
// Signatures are checked as a validating resolver does (RFC 4035), with the
// reason of a failure; a denial is checked for its signatures, not for whether
// its NSEC or NSEC3 records cover the name.
//
// A single view is judged with care. What fails for every server alike (IPv6,
// TCP, EDNS) is the way from here, not the servers'; and where this host's
// resolver has an answer that the public tree does not, the tree is not right
// and the resolver wrong: it is a split horizon.
package delegation
