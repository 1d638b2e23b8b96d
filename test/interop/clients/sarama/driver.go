// A driver of sarama; the line protocol is in README.md of the folder above.
package main

import (
	"context"
	"errors"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

var codecs = map[string]sarama.CompressionCodec{
	"none":   sarama.CompressionNone,
	"gzip":   sarama.CompressionGZIP,
	"snappy": sarama.CompressionSnappy,
	"lz4":    sarama.CompressionLZ4,
	"zstd":   sarama.CompressionZSTD,
}

type driver struct {
	address   string
	producers map[string]sarama.SyncProducer

	// Of the member.
	group  string
	member sarama.ConsumerGroup
	stop   context.CancelFunc
	done   chan struct{}

	mutex   sync.Mutex
	session sarama.ConsumerGroupSession
	next    map[Partition]int64

	transactor sarama.SyncProducer
	inbox      Inbox
}

func config() *sarama.Config {
	made := sarama.NewConfig()
	made.Version = sarama.MaxVersion
	made.Metadata.RefreshFrequency = time.Second
	return made
}

func (d *driver) producer(command *Command) (sarama.SyncProducer, error) {
	name := command.codec()
	if command.Idempotent {
		name += " idempotent"
	}
	if known, ok := d.producers[name]; ok {
		return known, nil
	}
	made := config()
	made.Producer.Compression = codecs[command.codec()]
	made.Producer.RequiredAcks = sarama.WaitForAll
	made.Producer.Return.Successes = true
	made.Producer.Flush.Frequency = 20 * time.Millisecond
	made.Producer.Retry.Max = 20
	if command.Idempotent {
		made.Producer.Idempotent = true
		made.Net.MaxOpenRequests = 1
	}
	producer, err := sarama.NewSyncProducer([]string{d.address}, made)
	if err == nil {
		d.producers[name] = producer
	}
	return producer, err
}

func encoded(data []byte) sarama.Encoder {
	if data == nil {
		return nil
	}
	return sarama.ByteEncoder(data)
}

func (d *driver) Produce(command *Command) error {
	producer, err := d.producer(command)
	if err != nil {
		return err
	}
	return producer.SendMessages(messagesOf(command.Topic, command.records()))
}

func messagesOf(topic string, all []Made) []*sarama.ProducerMessage {
	var messages []*sarama.ProducerMessage
	for _, made := range all {
		message := &sarama.ProducerMessage{
			Topic: topic, Partition: made.Partition, Key: encoded(made.Key), Value: encoded(made.Value),
		}
		for _, header := range made.Headers {
			to := sarama.RecordHeader{Key: []byte(header.Name), Value: header.Value}
			message.Headers = append(message.Headers, to)
		}
		messages = append(messages, message)
	}
	return messages
}

func (d *driver) Init(command *Command) error {
	made := config()
	made.Producer.RequiredAcks = sarama.WaitForAll
	made.Producer.Return.Successes = true
	made.Producer.Flush.Frequency = 20 * time.Millisecond
	made.Producer.Retry.Max = 20
	made.Producer.Idempotent = true
	made.Producer.Partitioner = sarama.NewManualPartitioner
	made.Producer.Transaction.ID = command.TransactionalID
	made.Producer.Transaction.Timeout = time.Duration(command.TimeoutMs) * time.Millisecond
	made.Net.MaxOpenRequests = 1
	producer, err := sarama.NewSyncProducer([]string{d.address}, made)
	d.transactor = producer
	return err
}

func (d *driver) Begin() error {
	return d.transactor.BeginTxn()
}

func (d *driver) Send(command *Command) error {
	return firstOf(d.transactor.SendMessages(messagesOf(command.Topic, command.records())))
}

// firstOf has the reason of the first message that was not delivered.
func firstOf(err error) error {
	var failed sarama.ProducerErrors
	if errors.As(err, &failed) {
		return failed[0].Err
	}
	return err
}

func (d *driver) Transform(command *Command) error {
	records, enough := d.inbox.Take(command.Count)
	for !enough {
		time.Sleep(5 * time.Millisecond)
		records, enough = d.inbox.Take(command.Count)
	}
	if err := d.transactor.SendMessages(messagesOf(command.Topic, transformed(records))); err != nil {
		return err
	}
	last := map[Partition]int64{}
	for _, record := range records {
		last[record.Partition] = record.Offset + 1
	}
	offsets := map[string][]*sarama.PartitionOffsetMetadata{}
	for partition, at := range last {
		position := &sarama.PartitionOffsetMetadata{Partition: partition.Number, Offset: at, LeaderEpoch: -1}
		offsets[partition.Topic] = append(offsets[partition.Topic], position)
	}
	return d.transactor.AddOffsetsToTxn(offsets, d.group)
}

func (d *driver) End(commit bool) error {
	end := d.transactor.AbortTxn
	if commit {
		end = d.transactor.CommitTxn
	}
	err := end()
	if err == nil {
		d.inbox.Ended(commit)
	}
	return err
}

func (d *driver) Setup(session sarama.ConsumerGroupSession) error {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.session, d.next = session, map[Partition]int64{}
	held := map[Partition]bool{}
	for topic, numbers := range session.Claims() {
		for _, number := range numbers {
			held[Partition{topic, number}] = true
		}
	}
	tellAssignment(held)
	return nil
}

func (d *driver) Cleanup(sarama.ConsumerGroupSession) error {
	return nil
}

func (d *driver) ConsumeClaim(_ sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		headers := map[string]string{}
		given := Given{Partition{message.Topic, message.Partition}, message.Offset, Made{Key: message.Key, Value: message.Value}}
		for _, header := range message.Headers {
			headers[string(header.Key)] = string(header.Value)
			given.Headers = append(given.Headers, Header{string(header.Key), header.Value})
		}
		d.mutex.Lock()
		d.next[Partition{message.Topic, message.Partition}] = message.Offset + 1
		d.mutex.Unlock()
		tellRecord(message.Topic, message.Partition, message.Offset, message.Key, message.Value, headers)
		d.inbox.Add(given)
	}
	return nil
}

func (d *driver) Join(command *Command) error {
	made := config()
	made.Consumer.Offsets.Initial = sarama.OffsetOldest
	made.Consumer.Offsets.AutoCommit.Enable = false
	if command.Isolation == "read_committed" {
		made.Consumer.IsolationLevel = sarama.ReadCommitted
	}
	made.Consumer.MaxWaitTime = 500 * time.Millisecond
	made.Consumer.Group.Session.Timeout = time.Duration(command.SessionTimeoutMs) * time.Millisecond
	made.Consumer.Group.Heartbeat.Interval = 250 * time.Millisecond
	made.Consumer.Group.InstanceId = command.InstanceID
	member, err := sarama.NewConsumerGroup([]string{d.address}, command.Group, made)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	d.group, d.member, d.stop, d.done = command.Group, member, stop, make(chan struct{})
	go func() {
		defer close(d.done)
		for ctx.Err() == nil {
			err := member.Consume(ctx, command.Topics, d)
			if errors.Is(err, sarama.ErrClosedConsumerGroup) {
				return
			}
			if err != nil {
				// While the broker is away; an application would try again too.
				time.Sleep(100 * time.Millisecond)
			}
		}
	}()
	return nil
}

func (d *driver) Commit() error {
	wanted := map[Partition]int64{}
	d.mutex.Lock()
	for partition, offset := range d.next {
		wanted[partition] = offset
		d.session.MarkOffset(partition.Topic, partition.Number, offset, "")
	}
	d.session.Commit()
	d.mutex.Unlock()
	// Commit tells of no failure: only asking does.
	for range 100 {
		found, err := d.offsets()
		arrived := err == nil
		for partition, offset := range wanted {
			arrived = arrived && found[partition] == offset
		}
		if arrived {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
		d.mutex.Lock()
		d.session.Commit()
		d.mutex.Unlock()
	}
	return errors.New("the commit did not arrive")
}

func (d *driver) offsets() (map[Partition]int64, error) {
	admin, err := sarama.NewClusterAdmin([]string{d.address}, config())
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	found, err := admin.ListConsumerGroupOffsets(d.group, nil)
	if err != nil {
		return nil, err
	}
	result := map[Partition]int64{}
	for topic, partitions := range found.Blocks {
		for number, block := range partitions {
			result[Partition{topic, number}] = block.Offset
		}
	}
	return result, nil
}

func (d *driver) Committed(topics []string) (map[string]int64, error) {
	found, err := d.offsets()
	result := map[string]int64{}
	for partition, offset := range found {
		for _, topic := range topics {
			if partition.Topic == topic {
				result[partition.String()] = offset
			}
		}
	}
	return result, err
}

func (d *driver) Leave() error {
	d.stop()
	<-d.done
	return d.member.Close()
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
		Client:    "sarama " + version("github.com/IBM/sarama"),
		Codecs:    []string{"none", "gzip", "snappy", "lz4", "zstd"},
		Protocols: []string{"classic"},
		Features:  []string{"idempotent", "transactions", "static"},
	}, &driver{address: os.Args[1], producers: map[string]sarama.SyncProducer{}})
}
