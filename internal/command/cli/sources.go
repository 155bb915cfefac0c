package cli

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// Sources are where the value of a flag comes from if the command line does not set it.
type Sources struct {
	Lookup func(string) (string, bool) // environment variables
	System string                      // the file of this machine, for commands that read one, without --config; "": none
	Takers []string                    // commands whose flags the file may set, whichever command reads it
}

// Apply sets each flag of cmd that the command line does not set, from BATUTA_<FLAG>, else from the
// --config file. Without --config the file is the system's: for a command that asks an agent, without
// --agent, if it can be read; for a member and what checks one, without --id and --listen, if it is
// there.
func (s Sources) Apply(cmd *cobra.Command) error {
	return cmp.Or(s.apply(cmd), refuseEmpty(cmd))
}

func (s Sources) apply(cmd *cobra.Command) error {
	if err := applyEnv(cmd, s.Lookup); err != nil {
		return err
	}
	path, _ := cmd.Flags().GetString("config")
	if config := cmd.Flags().Lookup("config"); config != nil && !config.Changed && s.uses(cmd) {
		config.Value.Set(s.System) // a reload reads it, too
		if err := s.applyFile(cmd, s.System); errors.Is(err, fs.ErrPermission) {
			return Usagef("%w, or start without it: --config ''", err)
		} else {
			return err
		}
	}
	if path == "" {
		return nil
	}
	return s.applyFile(cmd, path)
}

// overrides is the annotation of a flag that the file has, too.
const overrides = "batuta_overrides"

// refuseEmpty refuses a text on the command line that is empty, as "$UNSET" is, and replaces nothing:
// the flag would have no effect.
func refuseEmpty(cmd *cobra.Command) error {
	var faults []error
	cmd.Flags().Visit(func(f *pflag.Flag) {
		text := f.Value.Type() == "string" || f.Value.Type() == "list"
		if _, overridden := f.Annotations[overrides]; text && !overridden && f.Name != "config" && strings.TrimSpace(f.Value.String()) == "" {
			kind, _ := pflag.UnquoteUsage(f)
			faults = append(faults, fmt.Errorf("--%s is empty: give %s, or leave it out", f.Name, strings.ToUpper(kind)))
		}
	})
	return Exit(Usage, errors.Join(faults...))
}

// uses reports whether cmd reads the system's file.
func (s Sources) uses(cmd *cobra.Command) bool {
	switch {
	case s.System == "":
		return false
	case cmd.Annotations[Asks] != "":
		return !cmd.Flags().Changed("agent") && readable(s.System) // of the agent on this machine
	case !readsSystem(cmd) || given(cmd, "id") || given(cmd, "listen"): // of another member on this machine
		return false
	}
	_, err := os.Stat(s.System)
	return err == nil
}

// readsSystem reports whether cmd reads the system's file at all.
func readsSystem(cmd *cobra.Command) bool {
	return cmd.Annotations[Asks] != "" || cmd.Flags().Lookup("member") != nil && cmd.Name() != "witness" // mostly of another cluster
}

// given reports whether the command line or a variable has a flag.
func given(cmd *cobra.Command, name string) bool {
	f := cmd.Flags().Lookup(name)
	return f != nil && f.Changed
}

// SystemFile returns the file that cmd has read without a --config; "": none.
func SystemFile(cmd *cobra.Command) string {
	if config := cmd.Flags().Lookup("config"); config != nil && !config.Changed {
		return config.Value.String()
	}
	return ""
}

// Asks is the annotation of a command that asks an agent.
const Asks = "batuta_asks"

// readable reports whether this process can read a file.
func readable(path string) bool {
	f, err := os.Open(path)
	if err == nil {
		f.Close()
	}
	return err == nil
}

func applyEnv(cmd *cobra.Command, lookup func(string) (string, bool)) error {
	_, underRun := lookup("BATUTA_TOKEN")
	var faults []error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Changed || isByHand(f) || f.Name == "help" {
			return
		}
		if underRun && (f.Name == "id" || f.Name == "election") {
			return // these describe a worker's own leadership
		}
		for _, n := range append([]string{f.Name}, f.Annotations[aliases]...) {
			name := variable(n)
			value, given := lookup(name)
			if value == "" && !(given && NeverEmpty(f)) {
				continue
			}
			if err := setWords(f.Value, value); err != nil {
				faults = append(faults, fmt.Errorf("%s=%q: %w", name, value, badValue(f.Value, value, err)))
			}
			MarkSourced(f, name)
			return
		}
	})
	return Exit(Usage, errors.Join(faults...))
}

// NeverEmpty reports whether an empty value of a flag is an error, also in a variable.
func NeverEmpty(f *pflag.Flag) bool {
	_, never := f.Value.(interface{ NeverEmpty() })
	return never
}

// setWords sets a flag from a variable, which separates the values of a list by commas or blanks,
// and pairs of a key and a value, which may have a comma in it, by blanks.
func setWords(v pflag.Value, words string) error {
	switch v := v.(type) {
	case *list:
		var parts []string
		for _, part := range strings.Fields(words) {
			if part = strings.Trim(part, ","); part != "" {
				parts = append(parts, part)
			}
		}
		*v = nil
		return v.Set(strings.Join(parts, ","))
	case interface{ Replace([]string) error }:
		return v.Replace(strings.Fields(words))
	}
	return v.Set(words)
}

// ListVar adds a flag with a list of values, repeated or with commas between.
func ListVar(fs *pflag.FlagSet, p *[]string, name, usage string) { fs.Var((*list)(p), name, usage) }

// list is the value of such a flag.
type list []string

// Type implements [pflag.Value].
func (l *list) Type() string { return "list" }

// String implements [pflag.Value].
func (l *list) String() string { return strings.Join(*l, ",") }

// Set implements [pflag.Value]. A value with a comma is put in double quotes.
func (l *list) Set(text string) error {
	r := csv.NewReader(strings.NewReader(text))
	r.TrimLeadingSpace = true
	values, err := r.Read()
	if err != nil && !errors.Is(err, io.EOF) {
		return errors.New("separate the values by commas")
	}
	for i, v := range values {
		if v = strings.TrimSpace(v); v != "" || i < len(values)-1 { // a comma may end a list
			*l = append(*l, v)
		}
	}
	return nil
}

// Append implements [pflag.SliceValue].
func (l *list) Append(value string) error {
	*l = append(*l, value)
	return nil
}

// Replace implements [pflag.SliceValue].
func (l *list) Replace(values []string) error {
	*l = values
	return nil
}

// GetSlice implements [pflag.SliceValue].
func (l *list) GetSlice() []string { return *l }

func (s Sources) applyFile(cmd *cobra.Command, path string) error {
	entries, err := readConfig(path)
	if err != nil {
		return Exit(Usage, err)
	}
	var faults []error
	for _, e := range entries {
		if err := e.apply(cmd, s.Takers); err != nil {
			faults = append(faults, fmt.Errorf("%s:%d: %s: %w", path, e.line, e.name, err))
		}
	}
	return Exit(Usage, errors.Join(faults...))
}

// entry is a key of the file, with its value or values.
type entry struct {
	name   string
	values []string
	line   int
}

func (e entry) apply(cmd *cobra.Command, takers []string) error {
	f := cmd.Flags().Lookup(e.name)
	switch {
	case e.name == "help" || e.name == "config":
		return errors.New("is not read from the file; give it on the command line")
	case f != nil && isByHand(f):
		return nil
	case f == nil && hasFlag(cmd, takers, e.name):
		return nil // the same file serves a member and the commands that query it
	case f == nil:
		return fmt.Errorf("unknown key%s; the keys are the flags of '%s --help', without dashes", didYouMean(e.name, namesOf(cmd, takers)), cmd.CommandPath())
	case f.Changed:
		annotate(f, overrides)
		return nil // the command line or the environment wins
	}
	if _, list := f.Value.(pflag.SliceValue); !list && len(e.values) != 1 {
		return errors.New("takes one value, not a list")
	}
	for _, v := range e.values {
		if err := f.Value.Set(v); err != nil {
			return fmt.Errorf("%q: %w", v, badValue(f.Value, v, err))
		}
	}
	MarkSourced(f, "file")
	return nil
}

// hasFlag reports whether any of those commands has a flag of that name.
func hasFlag(cmd *cobra.Command, commands []string, name string) bool {
	return slices.ContainsFunc(commands, func(of string) bool {
		c, _, err := cmd.Root().Find([]string{of})
		return err == nil && c.Flags().Lookup(name) != nil
	})
}

// namesOf returns the names of the flags of cmd and of those commands.
func namesOf(cmd *cobra.Command, commands []string) []string {
	names := namesIn(cmd.Flags())
	for _, of := range commands {
		if c, _, err := cmd.Root().Find([]string{of}); err == nil {
			names = append(names, namesIn(c.Flags())...)
		}
	}
	return names
}

// readConfig reads the YAML file at path: a mapping of flag names to values, or to lists of values.
func readConfig(path string) ([]entry, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("config file: %w", Unread(err))
	}
	var doc yaml.Node
	documents := yaml.NewDecoder(bytes.NewReader(text))
	switch err := documents.Decode(&doc); {
	case err == io.EOF || err == nil && doc.IsZero():
		return nil, nil // empty, or nothing but comments
	case err != nil:
		return nil, fmt.Errorf("config file %s: %w; write one 'flag: value' per line, without a space before it", path, err)
	case documents.Decode(new(yaml.Node)) != io.EOF:
		return nil, fmt.Errorf("config file %s has more than one document: keep one, without a line --- after it", path)
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s:%d: want lines of 'flag: value'", path, root.Line)
	}
	seen := map[string]bool{}
	var entries []entry
	for i := 0; i < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		if seen[key.Value] {
			return nil, fmt.Errorf("%s:%d: %s is given twice; keep one", path, key.Line, key.Value)
		}
		seen[key.Value] = true
		values, err := scalars(value)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %s: %w", path, value.Line, key.Value, err)
		}
		entries = append(entries, entry{key.Value, values, key.Line})
	}
	return entries, nil
}

func scalars(n *yaml.Node) ([]string, error) {
	plain := func(n *yaml.Node) string {
		if n.Tag == "!!null" { // also spelled ~ or null
			return ""
		}
		return n.Value
	}
	switch n.Kind {
	case yaml.ScalarNode:
		return []string{plain(n)}, nil
	case yaml.SequenceNode:
		var all []string
		for _, item := range n.Content {
			if item.Kind != yaml.ScalarNode {
				return nil, errors.New("want a list of plain values")
			}
			all = append(all, plain(item))
		}
		return all, nil
	}
	return nil, errors.New("want a plain value or a list of them")
}

// sourced is the annotation of a flag with a value from elsewhere than the command line.
const sourced = "batuta_sourced"

// MarkSourced records the source of the value: a variable, the file, or something else.
func MarkSourced(f *pflag.Flag, source string) {
	f.Changed = true
	annotate(f, sourced, source)
}

func annotate(f *pflag.Flag, key string, values ...string) {
	if f.Annotations == nil {
		f.Annotations = map[string][]string{}
	}
	f.Annotations[key] = values
}

// SourceOf returns the source of a flag's value, as it was marked; "": the command line or none.
func SourceOf(f *pflag.Flag) string {
	if from := f.Annotations[sourced]; len(from) > 0 {
		return from[0]
	}
	return ""
}

// origins returns what to add to an error that names flags of cmd, or the file or directory of one:
// what has set them, such as a variable.
func origins(cmd *cobra.Command, text string) (added string) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		from := SourceOf(f)
		if from == "file" {
			from = cmd.Flags().Lookup("config").Value.String()
		}
		named := func(what, before, after string) bool {
			return regexp.MustCompile(`(^|` + before + `)` + regexp.QuoteMeta(what) + `($|` + after + `)`).MatchString(text)
		}
		if from != "" && !strings.Contains(text, from) && (named("--"+f.Name, `[^\w-]`, `[^\w-]`) || isPath(f) && named(f.Value.String(), `[ "]`, `[ ":;,]`)) {
			added += "; --" + f.Name + " is set by " + from
		}
	})
	return added
}

// isPath reports whether the value of a flag is the name of a file or directory.
func isPath(f *pflag.Flag) bool {
	kind, _ := pflag.UnquoteUsage(f)
	return (kind == "FILE" || kind == "DIR") && f.Value.String() != ""
}

const byHand = "batuta_by_hand"

// ByHand keeps variables and the file from setting a flag: a member's flag of that name has a
// different meaning.
func ByHand(fs *pflag.FlagSet, name string) { annotate(fs.Lookup(name), byHand) }

func isByHand(f *pflag.Flag) bool {
	_, hand := f.Annotations[byHand]
	return hand
}

const aliases = "batuta_aliases"

// Alias makes a flag accept its earlier names: on the command line, in the file and as variables.
// No help shows them.
func Alias(fs *pflag.FlagSet, name string, earlier ...string) {
	annotate(fs.Lookup(name), aliases, earlier...)
	normal := fs.GetNormalizeFunc()
	fs.SetNormalizeFunc(func(fs *pflag.FlagSet, given string) pflag.NormalizedName {
		if slices.Contains(earlier, given) {
			given = name
		}
		return normal(fs, given)
	})
}
