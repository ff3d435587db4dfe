//go:build race

package memstore

// raceDetector says that the race detector is on, under which everything takes longer.
const raceDetector = true
