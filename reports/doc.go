// Package reports holds what was seen of one target (Report) and what it means
// (Judge, Verdict). It is pure: no input, no output, no clock.
//
// The judge's opinions:
//
//   - A long phase does not say why it is long. Only a comparison does: with
//     the network's round trip, with another resource, with the second request
//     of the same connection, with a clamped MSS.
//   - Distance is physics, not a fault. It explains a time; it is never blamed.
//   - What repeats in every sample is structure (a slow script, a slow
//     handshake); what comes and goes is chance (loss) or contention.
//   - A verdict that is wrong and sure of itself is the worst result, so
//     every cause carries the probability that its evidence is what it seems.
package reports
