// Package replay decides the requests of access logs by rules, and tells what would have become of them.
//
// [Run] reads requests in the order of time, as package accesslog gives them, has package sim decide each, and counts: for each
// rule, for the keys that were refused, and over time. A [Report] is written as a table, as JSON, and as a page of HTML.
package replay
