// A driver of franz-go; the line protocol is in README.md of the folder above.
package main

import (
	"context"
	"errors"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

type driver struct {
	address   string
	producers map[string]*kgo.Client

	// Of the member.
	client *kgo.Client
	group  string
	done   chan struct{}
	mutex  sync.Mutex
	held   map[Partition]bool
	next   map[Partition]kgo.EpochOffset

	// Of transactions: a client of its own, or one with the member, whose offsets they commit.
	transactional []kgo.Opt
	transactor    *kgo.Client
	session       *kgo.GroupTransactSession
	inbox         Inbox
	// Held by who polls the session: a transaction commits all that was polled when it ends.
	polling sync.Mutex
	open    bool
}

func (d *driver) producer(command *Command) (*kgo.Client, error) {
	name := command.codec()
	if command.Idempotent {
		name += " idempotent"
	}
	if known, ok := d.producers[name]; ok {
		return known, nil
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(d.address),
		kgo.ProducerBatchCompression(codecs[command.codec()]),
		kgo.AllowAutoTopicCreation(),
		kgo.UnknownTopicRetries(0),
		kgo.ProducerLinger(20 * time.Millisecond),
	}
	if !command.Idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	client, err := kgo.NewClient(options...)
	d.producers[name] = client
	return client, err
}

func (d *driver) Produce(command *Command) error {
	client, err := d.producer(command)
	if err != nil {
		return err
	}
	return client.ProduceSync(context.Background(), recordsOf(command.Topic, command.records())...).FirstErr()
}

func recordsOf(topic string, all []Made) []*kgo.Record {
	var records []*kgo.Record
	for _, made := range all {
		record := &kgo.Record{Topic: topic, Partition: made.Partition, Key: made.Key, Value: made.Value}
		for _, header := range made.Headers {
			record.Headers = append(record.Headers, kgo.RecordHeader{Key: header.Name, Value: header.Value})
		}
		records = append(records, record)
	}
	return records
}

// Init leaves the session to Join, where the driver joins a group afterwards.
func (d *driver) Init(command *Command) error {
	d.transactional = []kgo.Opt{
		kgo.TransactionalID(command.TransactionalID),
		kgo.TransactionTimeout(time.Duration(command.TimeoutMs) * time.Millisecond),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(20 * time.Millisecond),
	}
	client, err := kgo.NewClient(append(d.transactional, kgo.SeedBrokers(d.address))...)
	if err != nil {
		return err
	}
	d.transactor = client
	_, _, err = client.ProducerID(context.Background())
	return err
}

func (d *driver) Begin() error {
	if d.session == nil {
		return d.transactor.BeginTransaction()
	}
	d.polling.Lock()
	err := d.session.Begin()
	if d.open = err == nil; !d.open {
		d.polling.Unlock()
	}
	return err
}

func (d *driver) Send(command *Command) error {
	records := recordsOf(command.Topic, command.records())
	return d.transactor.ProduceSync(context.Background(), records...).FirstErr()
}

// Transform polls in the transaction what is missing.
func (d *driver) Transform(command *Command) error {
	records, enough := d.inbox.Take(command.Count)
	for !enough {
		d.poll()
		records, enough = d.inbox.Take(command.Count)
	}
	made := recordsOf(command.Topic, transformed(records))
	return d.session.ProduceSync(context.Background(), made...).FirstErr()
}

func (d *driver) End(commit bool) error {
	if d.session == nil {
		return d.transactor.EndTransaction(context.Background(), kgo.TransactionEndTry(commit))
	}
	if !d.open {
		// A session that could not commit has aborted.
		if commit {
			return errors.New("no transaction is open")
		}
		return nil
	}
	defer d.polling.Unlock()
	d.open = false
	committed, err := d.session.End(context.Background(), kgo.TransactionEndTry(commit))
	if committed {
		d.inbox.Ended(true)
	} else {
		// The session goes back to what is committed.
		d.inbox.Clear()
	}
	if err == nil && commit && !committed {
		err = errors.New("the session aborted it")
	}
	return err
}

func (d *driver) change(partitions map[string][]int32, hold bool) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	changed := false
	for topic, numbers := range partitions {
		for _, number := range numbers {
			partition := Partition{topic, number}
			changed = true
			if hold {
				d.held[partition] = true
			} else {
				delete(d.held, partition)
				delete(d.next, partition)
			}
		}
	}
	if changed {
		tellAssignment(d.held)
	}
}

func (d *driver) Join(command *Command) error {
	d.group, d.done = command.Group, make(chan struct{})
	d.held, d.next = map[Partition]bool{}, map[Partition]kgo.EpochOffset{}
	lost := func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) { d.change(partitions, false) }
	options := []kgo.Opt{
		kgo.SeedBrokers(d.address),
		kgo.ConsumerGroup(command.Group),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.FetchMaxWait(500 * time.Millisecond),
		kgo.MetadataMaxAge(time.Second),
		kgo.MetadataMinAge(100 * time.Millisecond),
		kgo.SessionTimeout(time.Duration(command.SessionTimeoutMs) * time.Millisecond),
		kgo.HeartbeatInterval(250 * time.Millisecond),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			d.change(partitions, true)
		}),
		kgo.OnPartitionsRevoked(lost),
		kgo.OnPartitionsLost(lost),
	}
	if command.Protocol == "cooperative" {
		options = append(options, kgo.Balancers(kgo.CooperativeStickyBalancer()))
	} else {
		options = append(options, kgo.Balancers(kgo.RangeBalancer()))
	}
	if command.Protocol == "consumer" {
		options = append(options, kgo.ServerSideBalancer())
	}
	if command.InstanceID != "" {
		options = append(options, kgo.InstanceID(command.InstanceID))
	}
	if command.Pattern != "" {
		options = append(options, kgo.ConsumeRegex(), kgo.ConsumeTopics(command.Pattern))
	} else {
		options = append(options, kgo.ConsumeTopics(command.Topics...))
	}
	if command.Isolation == "read_committed" {
		options = append(options, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	if d.transactional != nil {
		d.transactor.Close()
		options = append(options, kgo.RequireStableFetchOffsets())
		session, err := kgo.NewGroupTransactSession(append(options, d.transactional...)...)
		if err != nil {
			return err
		}
		d.session, d.client, d.transactor = session, session.Client(), session.Client()
		go d.read()
		return nil
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	d.client = client
	go d.read()
	return nil
}

func (d *driver) read() {
	defer close(d.done)
	for {
		d.polling.Lock()
		open := d.poll()
		d.polling.Unlock()
		if !open {
			return
		}
		// Lets a transaction have its turn.
		time.Sleep(time.Millisecond)
	}
}

// poll waits a moment for records; false when the client is closed.
func (d *driver) poll() bool {
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	var fetches kgo.Fetches
	if d.session != nil {
		fetches = d.session.PollFetches(ctx)
	} else {
		fetches = d.client.PollFetches(ctx)
	}
	if fetches.IsClientClosed() {
		return false
	}
	fetches.EachError(func(_ string, _ int32, err error) {
		var group *kgo.ErrGroupSession
		if !errors.As(err, &group) && !errors.Is(err, context.DeadlineExceeded) {
			tellError(err)
		}
	})
	fetches.EachRecord(func(record *kgo.Record) {
		headers := map[string]string{}
		given := Given{Partition{record.Topic, record.Partition}, record.Offset, Made{Key: record.Key, Value: record.Value}}
		for _, header := range record.Headers {
			headers[header.Key] = string(header.Value)
			given.Headers = append(given.Headers, Header{header.Key, header.Value})
		}
		tellRecord(record.Topic, record.Partition, record.Offset, record.Key, record.Value, headers)
		d.inbox.Add(given)
		d.mutex.Lock()
		d.next[given.Partition] = kgo.EpochOffset{Epoch: record.LeaderEpoch, Offset: record.Offset + 1}
		d.mutex.Unlock()
	})
	return true
}

func (d *driver) Commit() error {
	offsets := map[string]map[int32]kgo.EpochOffset{}
	d.mutex.Lock()
	for partition, at := range d.next {
		if offsets[partition.Topic] == nil {
			offsets[partition.Topic] = map[int32]kgo.EpochOffset{}
		}
		offsets[partition.Topic][partition.Number] = at
	}
	d.mutex.Unlock()
	var failure error
	done := func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse, err error) {
		if failure = err; err != nil {
			return
		}
		for _, topic := range response.Topics {
			for _, partition := range topic.Partitions {
				failure = errors.Join(failure, kerr.ErrorForCode(partition.ErrorCode))
			}
		}
	}
	d.client.CommitOffsetsSync(context.Background(), offsets, done)
	return failure
}

func (d *driver) Committed(topics []string) (map[string]int64, error) {
	found, err := kadm.NewClient(d.client).FetchOffsetsForTopics(context.Background(), d.group, topics...)
	result := map[string]int64{}
	found.Each(func(at kadm.OffsetResponse) {
		result[Partition{at.Topic, at.Partition}.String()] = at.At
	})
	return result, err
}

func (d *driver) Leave() error {
	d.client.Close()
	<-d.done
	return nil
}

func version(module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, dependency := range info.Deps {
		if dependency.Path == module {
			return dependency.Version
		}
	}
	return ""
}

func main() {
	serve(Ready{
		Client:    "franz-go " + version("github.com/twmb/franz-go"),
		Codecs:    []string{"none", "gzip", "snappy", "lz4", "zstd"},
		Protocols: []string{"classic", "cooperative", "consumer"},
		// A static member of KIP-848 leaves without naming its instance, which brokers refuse: no "static-consumer".
		Features: []string{"idempotent", "transactions", "transactions-consumer", "static", "regex", "regex-later"},
	}, &driver{address: os.Args[1], producers: map[string]*kgo.Client{}})
}
