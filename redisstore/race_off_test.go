//go:build !race

package redisstore

// raceDetector says that the race detector is on, under which everything takes longer.
const raceDetector = false
