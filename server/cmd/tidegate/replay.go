package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidegate-go/tidegate/httplimit/clientip"
	"github.com/tidegate-go/tidegate/rules"
	"github.com/tidegate-go/tidegate/server/internal/accesslog"
	"github.com/tidegate-go/tidegate/server/internal/replay"
)

// replayFlags are the flags of replay.
type replayFlags struct {
	rules   string
	compare string
	log     accesslog.Options
	mapping []string
	client  clientip.Config
	fleet   fleetFlags
	json    bool
	html    string
}

func newReplay() *cobra.Command {
	var f replayFlags
	cmd := &cobra.Command{
		Use:   "replay --rules FILE LOG…|-",
		Short: "Decide the requests of access logs by rules, and tell what would have become of them",
		Long: `Replay reads access logs, plain or packed by gzip or zstd, has each request decided by the rules in virtual time, by the engine
of live traffic, and reports: for each rule who would have been refused, and what the downstream would have seen.
Nothing is charged anywhere. It exits with 0 if it ran, whatever it found, and 2 if it could not.

Formats: auto, ` + strings.Join(accesslog.Names, ", ") + `, or a format string as nginx has them, such as
  '$remote_addr [$time_local] "$request" $status $request_time "$http_x_forwarded_for"'
Attributes are those of the middleware: method, host, path, ip, header.X, query.X, cookie.X; user; and any field of the log by its
name, or by another with --map. A line that cannot be read is skipped and counted.

Several logs are merged by time. Lines out of order by less than --window are sorted. Where a log has whole seconds, the k lines of
one second in a row are put at k moments drawn evenly from it, in their order, by --seed. Logs are written when requests
end: --duration-field moves each to its start.

With --replicas, --skew or --outage the limits are shared by so many replicas, around a store that is away in the outages: each
request goes to one drawn by --skew and --seed, and while the store is away each keeps to its share, by the code that does so live.`,
		Example: `  tidegate replay --rules rules.yaml access.log
  tidegate replay --rules new.yaml --compare old.yaml --html report.html access.log.2.gz access.log.1
  tidegate replay --rules rules.yaml --replicas 3 --skew 60,25,15 --outage 10:05-10:08 access.log
  zcat *.gz | tidegate replay --rules rules.yaml --format json --map user=jwt.sub --json -`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("no log is named: write the files, or - for stdin")
			}
			return nil
		},
		RunE: f.run,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveDefault
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.rules, "rules", "", "file of rules")
	flags.StringVar(&f.compare, "compare", "", "file of other rules, such as those of today, to tell who is newly refused and who newly passes")
	flags.StringVar(&f.log.Format, "format", "auto", "format of the logs")
	flags.StringArrayVar(&f.mapping, "map", nil, "attribute and the field that it is taken from, as user=jwt.sub; time=FIELD names the time")
	flags.StringVar(&f.log.DurationField, "duration-field", "", "field that says how long a request took, in seconds or as FIELD=ms; FIELD_ms needs no unit")
	flags.DurationVar(&f.log.Window, "window", 10*time.Second, "how far lines may be out of order")
	flags.Uint64Var(&f.log.Seed, "seed", 0, "draws the moments within a second, and the replicas")
	flags.BoolVar(&f.log.Strict, "strict", false, "end at the first line that cannot be read")
	flags.StringSliceVar(&f.client.Trusted, "trusted-proxies", nil, "proxies whose X-Forwarded-For is believed, such as 10.0.0.0/8")
	flags.IntVar(&f.client.Hops, "hops", 0, "number of proxies that every request passes, where their addresses are not known")
	flags.StringVar(&f.client.Header, "client-header", "", "header that the proxies write (default X-Forwarded-For)")
	f.fleet.add(flags)
	flags.BoolVar(&f.json, "json", false, "print JSON")
	flags.StringVar(&f.html, "html", "", "file to write the report to as a page")
	complete(cmd, "format", append([]string{"auto"}, accesslog.Names...)...)
	for _, name := range []string{"rules", "compare", "html"} {
		if err := cmd.MarkFlagFilename(name); err != nil {
			panic(err) // the flag does not exist: a slip in this program
		}
	}
	return cmd
}

func (f *replayFlags) run(cmd *cobra.Command, names []string) error {
	cfg, err := f.config()
	if err != nil {
		return err
	}
	f.log.TimeField = cfg.Mapping.Time
	page, err := beginFile(f.html)
	if err != nil {
		return fmt.Errorf("--html: %w", err)
	}
	defer page.discard()
	logs, readers, err := f.open(cmd, names)
	defer func() {
		for _, r := range readers {
			_ = r.Close()
		}
	}()
	if err != nil {
		return err
	}
	ctx, stop := untilSignal(cmd.Context())
	defer stop()
	done := showProgress(ctx, cmd.ErrOrStderr(), readers)
	report, err := replay.Run(ctx, logs, cfg)
	done()
	if report == nil {
		return err
	}
	if report.Moved == 0 && report.Unmoved > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: warning: --duration-field %s: no line has such a field with a duration in it, so that no request was moved to its start\n",
			cmd.CommandPath(), f.log.DurationField)
	}
	if bad, ok := errors.AsType[*accesslog.LineError](err); ok {
		return fmt.Errorf("%s:%d: %s (--strict ends at such a line)", bad.File, bad.Line, bad.Reason)
	}
	return errors.Join(err, f.write(cmd.OutOrStdout(), page, report))
}

// config reads what the flags name.
func (f *replayFlags) config() (*replay.Config, error) {
	if f.rules == "" {
		return nil, errors.New("--rules is missing: name the file of rules to try")
	}
	cfg := &replay.Config{ClientIP: f.client}
	var err error
	if cfg.Rules, err = rules.Load(f.rules); err != nil {
		return nil, err
	}
	if f.compare != "" {
		if cfg.Compare, err = rules.Load(f.compare); err != nil {
			return nil, err
		}
	}
	if cfg.Mapping, err = replay.ParseMapping(f.mapping); err != nil {
		return nil, err
	}
	if _, err := clientip.New(&f.client); err != nil {
		return nil, errors.New(strings.ReplaceAll(oneLine(err.Error()), "clientip: ", ""))
	}
	cfg.Seed = f.log.Seed
	if err := f.fleet.apply(cfg); err != nil {
		return nil, err
	}
	return cfg, nil
}

// open opens the logs. The readers are to be closed whether there is an error or not.
func (f *replayFlags) open(cmd *cobra.Command, names []string) ([]*accesslog.Log, []*accesslog.Reader, error) {
	logs := make([]*accesslog.Log, 0, len(names))
	readers := make([]*accesslog.Reader, 0, len(names))
	seen := map[string]bool{}
	var empty, notes []string
	options := f.log
	for i, name := range names {
		options.Stream = uint64(i)
		if seen[name] {
			return nil, readers, fmt.Errorf("%s is named twice: its requests would count twice", name)
		}
		seen[name] = true
		r, err := accesslog.Open(name, cmd.InOrStdin())
		if err != nil {
			return nil, readers, err
		}
		if i := slices.IndexFunc(readers, r.Same); i >= 0 {
			notes = append(notes, fmt.Sprintf("%s is the same file as %s, and read once", r.Name(), readers[i].Name()))
			_ = r.Close()
			continue
		}
		l, err := accesslog.NewLog(r, options)
		if errors.Is(err, accesslog.ErrEmpty) {
			empty = append(empty, r.Name())
			notes = append(notes, r.Name()+" is empty")
			_ = r.Close()
			continue
		}
		readers = append(readers, r)
		if err != nil {
			return nil, readers, err
		}
		logs = append(logs, l)
	}
	switch {
	case len(logs) > 0:
		for _, note := range notes {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: note: %s\n", cmd.CommandPath(), printable(note))
		}
		return logs, readers, nil
	case len(empty) == 1:
		return nil, readers, fmt.Errorf("%s is empty: there is nothing to replay", empty[0])
	}
	return nil, readers, fmt.Errorf("all %d logs are empty: there is nothing to replay", len(empty))
}

// write writes the report as a page, if there is to be one, and prints it.
func (f *replayFlags) write(w io.Writer, page *wholeFile, r *replay.Report) error {
	err := page.finish(r.WriteHTML)
	if err != nil {
		err = fmt.Errorf("--html: %w", err)
	}
	return errors.Join(err, f.print(w, r))
}

func (f *replayFlags) print(w io.Writer, r *replay.Report) error {
	if !f.json {
		return r.WriteText(w)
	}
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// showProgress shows on a terminal how much of the logs was read, until the function that it returns is called.
func showProgress(ctx context.Context, w io.Writer, readers []*accesslog.Reader) (done func()) {
	bar := newBar(w, readers)
	if bar == nil {
		return func() {}
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				_ = bar.Clear()
				return
			case <-tick.C:
				read, _ := bytesRead(readers)
				_ = bar.Set64(read)
			}
		}
	}()
	return func() {
		stop()
		<-ended
	}
}
