// The drivers' side of the line protocol, for Go: docs in README.md beside this file.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
)

// Ready is what a driver says of its client first.
type Ready struct {
	Event     string   `json:"event"`
	Client    string   `json:"client"`
	Codecs    []string `json:"codecs"`
	Protocols []string `json:"protocols"`
	Features  []string `json:"features"`
}

// Command has the fields of all commands.
type Command struct {
	ID               int      `json:"id"`
	Cmd              string   `json:"cmd"`
	Topic            string   `json:"topic"`
	Count            int      `json:"count"`
	Prefix           string   `json:"prefix"`
	Size             int      `json:"size"`
	Codec            string   `json:"codec"`
	Idempotent       bool     `json:"idempotent"`
	Nulls            bool     `json:"nulls"`
	Group            string   `json:"group"`
	Topics           []string `json:"topics"`
	Pattern          string   `json:"pattern"`
	Protocol         string   `json:"protocol"`
	InstanceID       string   `json:"instanceId"`
	SessionTimeoutMs int      `json:"sessionTimeoutMs"`
	Isolation        string   `json:"isolation"`
	TransactionalID  string   `json:"transactionalId"`
	TimeoutMs        int      `json:"timeoutMs"`
	Partitions       int      `json:"partitions"`
	Commit           bool     `json:"commit"`
}

// Driver is what a client has to do.
type Driver interface {
	Produce(command *Command) error
	Join(command *Command) error
	Commit() error
	Committed(topics []string) (map[string]int64, error)
	Leave() error

	Init(command *Command) error
	Begin() error
	Send(command *Command) error
	Transform(command *Command) error
	End(commit bool) error
}

// Partition of a topic.
type Partition struct {
	Topic  string
	Number int32
}

func (p Partition) String() string {
	return fmt.Sprintf("%s-%d", p.Topic, p.Number)
}

// Header of a record.
type Header struct {
	Name  string
	Value []byte
}

// Made is a record that a produce, send or transform command asks for; a nil key or value is null.
type Made struct {
	// Of send and transform.
	Partition  int32
	Key, Value []byte
	Headers    []Header
}

// Given is a record that the member was told of.
type Given struct {
	Partition
	Offset int64
	Made
}

// Inbox has the records that the member was told of and that are in no committed transaction.
type Inbox struct {
	mutex   sync.Mutex
	records []Given
	next    map[Partition]int64
	taken   int
}

// Add leaves out a record that comes again, after a rebalance.
func (i *Inbox) Add(record Given) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	if i.next == nil {
		i.next = map[Partition]int64{}
	}
	if record.Offset < i.next[record.Partition] {
		return
	}
	i.next[record.Partition] = record.Offset + 1
	i.records = append(i.records, record)
}

// Take returns all, for the transaction that is open; false while they are fewer than count.
func (i *Inbox) Take(count int) ([]Given, bool) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	i.taken = len(i.records)
	return append([]Given(nil), i.records...), i.taken >= count
}

// Ended has what an aborted transaction had there again for the next one.
func (i *Inbox) Ended(committed bool) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	if committed {
		i.records = i.records[i.taken:]
	}
	i.taken = 0
}

// Clear forgets all, for a member that will be given again what is in no committed transaction.
func (i *Inbox) Clear() {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	i.records, i.next, i.taken = nil, nil, 0
}

// transformed is what a transform command makes of records.
func transformed(records []Given) []Made {
	var all []Made
	for _, record := range records {
		made := record.Made
		made.Partition = record.Number
		made.Value = bytes.ToUpper(made.Value)
		all = append(all, made)
	}
	return all
}

func (c *Command) codec() string {
	if c.Codec == "" {
		return "none"
	}
	return c.Codec
}

func (c *Command) records() []Made {
	var all []Made
	for n := range c.Count {
		record := Made{
			Key:     fmt.Appendf(nil, "%skey %d", c.Prefix, n),
			Value:   padded(fmt.Sprintf("%s%d ", c.Prefix, n), c.Size),
			Headers: []Header{{"n", fmt.Append(nil, n)}, {"from", []byte(c.Prefix)}},
		}
		if c.Partitions > 0 {
			record.Partition = int32(n % c.Partitions)
		}
		if c.Nulls && n%10 == 9 {
			record.Key = nil
		}
		if c.Nulls && n%10 == 8 {
			record.Value = nil
		}
		all = append(all, record)
	}
	return all
}

func padded(start string, size int) []byte {
	if missing := size - len(start); missing > 0 {
		start += strings.Repeat("=+", missing/2+1)[:missing]
	}
	return []byte(start)
}

var output sync.Mutex

func write(message any) {
	line, err := json.Marshal(message)
	if err != nil {
		panic(err)
	}
	output.Lock()
	defer output.Unlock()
	os.Stdout.Write(append(line, '\n'))
}

// tellAssignment says all that the member holds now.
func tellAssignment(held map[Partition]bool) {
	names := []string{}
	for partition := range held {
		names = append(names, partition.String())
	}
	write(map[string]any{"event": "assignment", "partitions": names})
}

func tellRecord(topic string, partition int32, offset int64, key, value []byte, headers map[string]string) {
	write(map[string]any{
		"event": "record", "topic": topic, "partition": partition, "offset": offset,
		"key": text(key), "value": text(value), "headers": headers,
	})
}

func text(data []byte) any {
	if data == nil {
		return nil
	}
	return string(data)
}

// tellError says what an application would be told.
func tellError(err error) {
	write(map[string]any{"event": "error", "message": err.Error()})
}

// serve answers commands one after the other until the input ends.
func serve(ready Ready, driver Driver) {
	ready.Event = "ready"
	write(ready)
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		command := &Command{}
		if err := json.Unmarshal(lines.Bytes(), command); err != nil {
			panic(err)
		}
		result := map[string]int64{}
		var err error
		switch command.Cmd {
		case "produce":
			err = driver.Produce(command)
		case "join":
			err = driver.Join(command)
		case "commit":
			err = driver.Commit()
		case "committed":
			result, err = driver.Committed(command.Topics)
		case "leave":
			err = driver.Leave()
		case "init":
			err = driver.Init(command)
		case "begin":
			err = driver.Begin()
		case "send":
			err = driver.Send(command)
		case "transform":
			err = driver.Transform(command)
		case "end":
			err = driver.End(command.Commit)
		default:
			err = fmt.Errorf("no command %q", command.Cmd)
		}
		if err != nil {
			write(map[string]any{"reply": command.ID, "error": err.Error()})
		} else {
			write(map[string]any{"reply": command.ID, "result": result})
		}
	}
}
