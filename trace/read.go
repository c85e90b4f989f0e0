package trace

// Segments splits a path at its answering hops and says what each part adds
// (R1, R5, R6).
func Segments(res *Result) []Segment { return nil }

// Read applies the rules R1 to R10 to a path.
func Read(res *Result) []Sentence { return nil }
