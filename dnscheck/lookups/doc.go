// Package lookups says what a web server's HostnameLookups would cost, from its
// access log: how often the server would ask for a client's name, how long each
// time, who waits for it, and how many workers that keeps busy.
//
// It goes in steps, each on its own: a Log counts the lookups that the requests
// would cause (Apache httpd looks up once a connection, and only if something
// asks for the name); Sample chooses addresses whose lookups are worth measuring;
// Probe measures them at this host's resolvers; Price replays the log through a
// cache of names and charges each lookup what a program waits for it.
//
// # Opinions
//
// What a lookup costs is not what a quick DNS tool waits: getaddrinfo blocks for
// as long as resolv.conf says, so a silent server is charged 10, 20 or 28 s and
// not the probe's own timeout. Both are told. An average of such costs means
// little: medians, percentiles and shares are given, each with the number it
// rests on, and a maximum is of what was measured, never extrapolated.
//
// # Limits
//
// Without %k, ports or a connection's number in the log, how many requests came
// over one connection is not known, and lookups are a bracket. The resolver's
// cache is taken to be empty at the log's beginning, and the names to be as they
// are today. Who asks for the name is the configuration's to say (package
// apacheconf); here all three are priced.
package lookups
