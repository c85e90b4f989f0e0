package accesslog

// Fault is why a line could not be read. The zero Fault is none.
type Fault uint8

// The faults.
const (
	NoFault       Fault = iota
	FaultTooLong        // longer than MaxLine
	FaultNUL            // NUL bytes amid it: a crash of the machine that wrote it
	FaultCutShort       // ends where the format goes on
	FaultText           // the format's own text is not where it should be
	FaultTrailing       // goes on where the format ends
	FaultTime           // no time where one belongs
	FaultNumber         // no number where one belongs
	FaultAddress        // no address where one belongs
	FaultJSON           // no JSON object
	numFaults
)

var faultTexts = [numFaults]string{"none", "longer than 1 MiB", "NUL bytes", "ends before the format does",
	"does not fit the format", "goes on after the format's end", "no valid time", "no valid number", "no valid address", "no valid JSON object"}

func (f Fault) String() string {
	if f >= numFaults {
		return "unknown"
	}
	return faultTexts[f]
}
