package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/tidegate-go/tidegate/redisstore"
	"github.com/tidegate-go/tidegate/server"
)

// tokenVariable is the environment's alternative to --token-file.
const tokenVariable = "TIDEGATE_TOKEN"

// serveFlags are the flags of serve.
type serveFlags struct {
	listen    string
	store     string
	timeout   time.Duration
	rules     string
	replicas  int
	tokenFile string
	delay     time.Duration
	drain     time.Duration
	envoy     envoyFlags
	config    configFlags
	log       logFlags
	pprof     pprofFlags
	traces    traceFlags
}

func newServe() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the service",
		Long: `Serve answers takes over HTTP until it gets SIGINT or SIGTERM. It then lets running requests finish and exits with 0;
a second signal ends it at once.

Rules come from --rules, and are changed while it runs: a file that is saved, or rules that are pushed; what is bad is logged,
and the rules before stay. SIGHUP makes it look again, once a file has been left alone for a moment. One rule is built in:
example, 10/s burst 20, a bucket for each key.

A file must be good at the start. Rules that are shared may come later: until then /healthz says 200, /readyz 503 and what is
waited for, and takes are answered 503.

While a store in Redis is away, takes are decided all the same, by this replica's share of each limit; /readyz and the log
say so. How many replicas there are is learned from the store; --replicas is for one that starts while that is away.

Resets, refunds, changes of rules, and stores of other services, which ask over --grpc, need a token, from --token-file or the
variable ` + tokenVariable + `.

Each flag can be given as a variable too, as in ` + variablePrefix + `LISTEN=:8080, and in the file of --config. A flag goes before its
variable, and that before the file; --print-config shows what is in force.`,
		Example: `  tidegate serve
  tidegate serve --listen :8080 --store redis://localhost:6379 --token-file token
  tidegate serve --rules rules.yaml
  tidegate serve --config tidegate.yaml --print-config
  curl -d '{"rule":"example","key":"user:1"}' localhost:8080/v1/take`,
		Args: flagsOnly,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.listen, "listen", "127.0.0.1:8080", "address to listen on; port 0 chooses a free one")
	flags.StringVar(&f.store, "store", "", storeUsage)
	flags.DurationVar(&f.timeout, "store-timeout", storeTimeout, "how long a request waits for a shared store before this replica decides by itself; more where the store is far away")
	flags.StringVar(&f.rules, "rules", "", rulesUsage)
	flags.IntVar(&f.replicas, "replicas", 0, "how many replicas share the store, for as long as it has never answered (default not known: 1, with a warning)")
	flags.StringVar(&f.tokenFile, "token-file", "", "file that holds the token for resets, refunds and changes of rules (default $"+tokenVariable+", else none)")
	flags.DurationVar(&f.delay, "shutdown-delay", 0, "how long to go on serving after a signal while /readyz says 503")
	flags.DurationVar(&f.drain, "drain-time", 10*time.Second, "how long to let running requests finish")
	f.envoy.add(cmd)
	f.config.add(cmd)
	f.log.add(cmd)
	f.pprof.add(cmd)
	f.traces.add(cmd)
	complete(cmd, "store", storeExamples...)
	if err := cmd.MarkFlagFilename("token-file"); err != nil {
		panic(err) // the flag does not exist: a slip in this program
	}
	return cmd
}

// check refuses what cannot be meant.
func (f *serveFlags) check(cmd *cobra.Command) error {
	if f.delay < 0 || f.drain <= 0 {
		return fmt.Errorf("--shutdown-delay is %v and --drain-time is %v: the one must not be negative, the other not 0", f.delay, f.drain)
	}
	if f.timeout < minStoreTimeout || f.timeout > maxStoreTimeout {
		return fmt.Errorf("--store-timeout is %v: it must be between %v and %v, and well above the time of a round trip to the store",
			f.timeout, minStoreTimeout, maxStoreTimeout)
	}
	if cmd.Flags().Changed("replicas") && f.replicas < 1 {
		return fmt.Errorf("--replicas is %d: it must be at least 1; leave it out where the number is not known", f.replicas)
	}
	return nil
}

func (f *serveFlags) run(cmd *cobra.Command) error {
	if err := f.config.resolve(cmd); err != nil {
		return err
	}
	if err := f.check(cmd); err != nil {
		return err
	}
	token, err := f.token()
	if err != nil {
		return err
	}
	if err := f.envoy.check(token); err != nil {
		return err
	}
	log, err := f.log.logger(cmd)
	if err != nil {
		return err
	}
	if f.config.show {
		f.config.printed(cmd, token)
		return nil
	}
	return f.serve(cmd, token, log)
}

// serve serves until a signal.
func (f *serveFlags) serve(cmd *cobra.Command, token string, log *slog.Logger) error {
	ctx, stop := untilSignal(cmd.Context())
	defer stop()
	redisstore.SetClientLogger(log)
	warnUnknown(cmd, log)
	traces, err := f.traces.open(ctx, log)
	if err != nil {
		return err
	}
	defer traces.close()
	store, err := openServed(f.store, f.timeout, f.replicas, log)
	if err != nil {
		return err
	}
	defer store.Close()
	name := storeName(f.store)
	if name == "" {
		name = memoryStore
	}
	cfg := &server.Config{
		Token:         token,
		StoreName:     shownStore(name),
		Version:       buildVersion().Version,
		ShutdownDelay: f.delay,
		DrainTime:     f.drain,
		Leases:        store.leases,
		StoreMetrics:  store.metrics,
		Traces:        traces.provider(),
		Logger:        log,
	}
	s, err := server.New(store.Store, cfg)
	if err != nil {
		return err
	}
	defer s.Close()
	stopRules, err := followRules(ctx, cmd, s, f.rules, f.store)
	if err != nil {
		return err
	}
	defer stopRules()
	proxies, err := f.envoy.open(ctx, s, store, cfg)
	if err != nil {
		return err
	}
	if f.envoy.dir != "" && f.rules == "" {
		s.RulesElsewhere("envoy", "the limits come from the files in "+f.envoy.dir+", which programs cannot change: edit them there")
	}
	stopProfiles, err := f.pprof.open(ctx, log)
	if err != nil {
		proxies.close()
		return err
	}
	defer stopProfiles()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", f.listen)
	if err != nil {
		proxies.close()
		return notListening("listen", f.listen, err)
	}
	store.settle(ctx)
	f.listening(cmd, log, "http://"+shownAddress(listener.Addr()), proxies.said(), shownStore(name))
	if err := proxies.serve(ctx, func(ctx context.Context) error { return s.Serve(ctx, listener) }); err != nil {
		return &exitError{exitDenied, err}
	}
	return nil
}

// listening says where the service is, with a line to try.
func (f *serveFlags) listening(cmd *cobra.Command, log *slog.Logger, at, proxies, store string) {
	if f.log.json() {
		log.Info("listening", slog.String("address", at), slog.String("proxies", strings.TrimSpace(proxies)), slog.String("store", store))
		return
	}
	try := `{"rule":"example","key":"user:1"}`
	if f.rules != "" {
		try = `{"attributes":{"path":"/","user":"1"}}`
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "listening on %s%s with store %s; try: curl -d '%s' %s/v1/take\n", at, proxies, store, try, at)
}

// token is the token that resets and refunds need; empty for none.
func (f *serveFlags) token() (string, error) {
	if f.tokenFile == "" {
		return strings.TrimSpace(os.Getenv(tokenVariable)), nil
	}
	b, err := os.ReadFile(f.tokenFile)
	if err != nil {
		return "", fmt.Errorf("--token-file: %w", err)
	}
	token := strings.TrimSpace(string(b))
	if token == "" {
		return "", fmt.Errorf("--token-file: %s is empty: write a long random word into it", f.tokenFile)
	}
	return token, nil
}

// notListening says in one line why the address of a flag cannot be listened on.
func notListening(flag, address string, err error) error {
	_, _, bad := net.SplitHostPort(address)
	switch {
	case bad != nil && !strings.HasPrefix(address, "unix:"):
		return fmt.Errorf("--%s is %q, which is not an address: write for example 127.0.0.1:8080, or :8080 for all interfaces", flag, address)
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%s is in use: choose another address with --%s; port 0 chooses a free one", address, flag)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("%s may not be listened on by this user: choose a port above 1023 with --%s", address, flag)
	}
	return fmt.Errorf("--%s %s: %w", flag, address, err)
}

// shownAddress is an address that a browser on this machine can open.
func shownAddress(a net.Addr) string {
	tcp, ok := a.(*net.TCPAddr)
	if ok && tcp.IP.IsUnspecified() {
		return net.JoinHostPort("localhost", strconv.Itoa(tcp.Port))
	}
	return a.String()
}
