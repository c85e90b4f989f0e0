package trace

// Paths are the parallel paths (ECMP) to a destination as far as flows found
// them.
type Paths struct {
	// Failure is the probability, over the whole graph, that a branch of a
	// router that spreads flows evenly was missed.
	Failure float64 `json:"failure"`
	Probes  int     `json:"probes"`
	// Flows are the flows that were followed, each with statistics of its own.
	Flows []FlowPath `json:"flows"`
	// Links are the edges of the graph, by TTL.
	Links []PathLink `json:"links"`
}

// FlowPath is the path of one flow.
type FlowPath struct {
	Flow     int    `json:"flow"` // counts from 0
	Key      string `json:"key"`  // what the routers hash: a port, or an echo identifier
	Reached  bool   `json:"reached"`
	HopCount *int   `json:"hop_count"`
	Hops     []Hop  `json:"hops"`
}

// PathLink is one edge: a router at TTL−1 and the one it passes flows on to.
type PathLink struct {
	TTL  int   `json:"ttl"` // of To
	From Place `json:"from"`
	To   Place `json:"to"`
	// Flows is how many of the flows took it.
	Flows int `json:"flows"`
}
