// Package algo holds the algorithms: pure functions of (state, now, cost) on integers below 2^53.
//
// Each is written once more in Lua, in redisstore/scripts, and the two give the same decision for every input; a
// differential test drives random operations through both. A change here is a change there.
//
// [Compile] turns a limit into [Params]. A store keeps a [State] for each bucket and, for one charge, copies it, lets
// [Params.Load] bring the copy to the present, tries [Params.Take] and [Params.Describe] on it, and puts the copy back
// if the charge is made. Nothing here reads a clock: now is always an argument, in microseconds since the Unix epoch.
//
// It may import the root package and the standard library.
package algo
