// Package accesslog reads access logs: what web servers, proxies and load balancers wrote of the requests they answered.
//
// A [Format] reads a line into an [Entry]: when the request came, and its fields under one set of names, whoever wrote the log.
// [Named] has the formats of the field, [Compile] makes one of a format string as nginx has them, and [Detect] finds out which
// one it is. A [Reader] reads the lines of files, packed ones too, and [Merge] brings those of several into one order of time.
//
// It imports the standard library and the libraries that unpack and read what others have defined: zstd, JSON and logfmt.
// What a request was charged for is not its business: see package sim.
package accesslog
