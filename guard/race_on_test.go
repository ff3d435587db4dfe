//go:build race

package guard

// raceDetector says that the race detector is on, under which a sync.Pool forgets on purpose.
const raceDetector = true
