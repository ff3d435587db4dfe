package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
)

// An asker connects to a service, and returns what asks it for a decision on so many descriptors.
type asker func(ctx context.Context, address string, n int) (call func(context.Context, int, int) error, hangUp func(), err error)

// connections is how many a proxy with as many threads would have.
const connections = 4

const (
	ratelimitMethod  = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
	gubernatorMethod = "/pb.gubernator.V1/GetRateLimits"
)

// ask connects, waits until the service answers, and calls the method with what request makes of the numbers of a caller;
// check says whether the answer is what the workload is about.
func ask(ctx context.Context, address, method string, request func(b []byte, caller, n int) []byte, check func([]byte) error) (
	func(context.Context, int, int) error, func(), error,
) {
	var conns [connections]*rawConn
	hangUp := func() {
		for _, c := range conns {
			if c != nil {
				c.close()
			}
		}
	}
	type room struct {
		request []byte
		*exchange
	}
	var rooms [serviceCallers]room
	for i := range rooms {
		rooms[i].exchange = newExchange()
	}
	call := func(ctx context.Context, caller, n int) error {
		r := &rooms[caller]
		r.request = request(r.request[:0], caller, n)
		told, err := conns[caller%connections].call(ctx, r.exchange, r.request)
		if err != nil {
			return err
		}
		return check(told)
	}
	for i := range conns {
		if err := untilAnswered(ctx, func(ctx context.Context) (err error) {
			if conns[i] != nil {
				conns[i].close() // it may be why the last call failed
			}
			if conns[i], err = dialRaw(ctx, address, method); err != nil {
				return err
			}
			return call(ctx, i, 0)
		}); err != nil {
			hangUp()
			return nil, nil, err
		}
	}
	return call, hangUp, nil
}

// untilAnswered waits for a service that has just been started: one that refuses connections or says that it cannot answer yet.
func untilAnswered(ctx context.Context, call func(context.Context) error) error {
	const patience = 20 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := call(ctx)
		if err == nil {
			return nil
		}
		// An error that is no answer of the service has the code Unknown too.
		code := status.Code(err)
		if ctx.Err() != nil || code != codes.Unavailable && code != codes.Unknown {
			return fmt.Errorf("no answer: %w", err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// askRatelimit asks for descriptors of envoy.service.ratelimit.v3.
func askRatelimit(ctx context.Context, address string, asked int) (func(context.Context, int, int) error, func(), error) {
	values := keysOf(descriptors[0].values)
	return ask(ctx, address, ratelimitMethod, func(b []byte, caller, n int) []byte {
		b = appendText(b, 1, serviceDomain)
		for i, d := range descriptors[:asked] {
			var room [64]byte
			entry := appendText(appendText(room[:0], 1, d.key), 2, values[spread(caller+i*serviceCallers, n, d.values)])
			b = protowire.AppendTag(b, 2, protowire.BytesType)
			b = protowire.AppendVarint(b, uint64(1+protowire.SizeVarint(uint64(len(entry)))+len(entry)))
			b = protowire.AppendBytes(protowire.AppendTag(b, 1, protowire.BytesType), entry)
		}
		return b
	}, func(b []byte) error {
		overall, statuses, err := fieldsOf(b, 1, 2)
		switch {
		case err != nil:
			return err
		case overall != 1:
			return errRefused
		case statuses != asked:
			return fmt.Errorf("%d statuses of %d descriptors", statuses, asked)
		}
		return nil
	})
}

// askGubernator asks for as many limits of gubernator.
func askGubernator(ctx context.Context, address string, asked int) (func(context.Context, int, int) error, func(), error) {
	values := keysOf(descriptors[0].values)
	return ask(ctx, address, gubernatorMethod, func(b []byte, caller, n int) []byte {
		for i, d := range descriptors[:asked] {
			var room [96]byte
			one := appendText(appendText(room[:0], 1, d.key), 2, values[spread(caller+i*serviceCallers, n, d.values)])
			one = appendNumber(one, 3, 1)             // hits
			one = appendNumber(one, 4, 4_000_000_000) // the limit
			one = appendNumber(one, 5, uint64(time.Hour/time.Millisecond))
			b = protowire.AppendBytes(protowire.AppendTag(b, 1, protowire.BytesType), one)
		}
		return b
	}, func(b []byte) error {
		for range asked {
			_, _, n := protowire.ConsumeTag(b)
			if n < 0 {
				return errors.New("too few answers")
			}
			one, m := protowire.ConsumeBytes(b[n:])
			if m < 0 {
				return protowire.ParseError(m)
			}
			b = b[n+m:]
			refused, problems, err := fieldsOf(one, 1, 5)
			switch {
			case err != nil:
				return err
			case refused != 0 || problems != 0:
				return errRefused
			}
		}
		return nil
	})
}

func appendText(b []byte, field protowire.Number, text string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), text)
}

func appendNumber(b []byte, field protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), v)
}

// fieldsOf returns the number in one field of a message, and how often another one is there.
func fieldsOf(b []byte, number, times protowire.Number) (value uint64, count int, err error) {
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return 0, 0, protowire.ParseError(n)
		}
		b = b[n:]
		if field == number && kind == protowire.VarintType {
			value, _ = protowire.ConsumeVarint(b)
		}
		if field == times {
			count++
		}
		if n = protowire.ConsumeFieldValue(field, kind, b); n < 0 {
			return 0, 0, protowire.ParseError(n)
		}
		b = b[n:]
	}
	return value, count, nil
}
