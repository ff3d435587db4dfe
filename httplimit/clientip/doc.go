// Package clientip tells who sent a request that came through proxies, so that each client has a bucket of its own:
// neither one for all that stand behind a proxy, nor a new one for whoever writes another address into a header.
//
// Anyone can write X-Forwarded-For. What is in it is believed only as far as it was written by proxies that are trusted:
// those whose addresses are listed ([Config.Trusted]), or the last so many ([Config.Hops]). Without either, the client is
// whoever is at the other end of the connection. Headers are read from the right, where the nearest proxy wrote, over all
// lines of the header, up to the first address that is not trusted; what stands to the left of it may be forged and is not
// even parsed.
//
// A bucket's key is the address in its shortest form; one of IPv6 stands for its whole /64, which one customer usually has.
// An IPv4 address is the same client in whichever notation it comes.
//
// It works on plain strings, so that whatever has to see addresses as the middleware does can use it: adapters of other
// frameworks, or the replay of an access log.
//
// It imports the standard library alone.
package clientip
