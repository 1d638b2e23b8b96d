//! A driver of rdkafka; the line protocol is in README.md of the folder above.
use std::collections::HashMap;
use std::error::Error;
use std::io::{BufRead, Write};
use std::sync::mpsc::{channel, RecvError, TryRecvError};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rdkafka::client::ClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Header, Headers, Message, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer, ProducerContext, ThreadedProducer};
use rdkafka::util::Timeout;
use rdkafka::{Offset, TopicPartitionList};
use serde_json::{json, Value};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// librdkafka gets over these by itself, and tells of them for information.
fn passes(code: Option<RDKafkaErrorCode>) -> bool {
    matches!(
        code,
        Some(RDKafkaErrorCode::BrokerTransportFailure | RDKafkaErrorCode::AllBrokersDown)
    )
}

fn write(message: Value) {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{message}").and_then(|()| output.flush()).expect("the output is open");
}

fn tell_error(error: &dyn std::fmt::Display) {
    write(json!({"event": "error", "message": error.to_string()}));
}

fn text(bytes: Option<&[u8]>) -> Option<String> {
    bytes.map(|data| String::from_utf8_lossy(data).into_owned())
}

struct Member;

impl ClientContext for Member {
    fn error(&self, error: KafkaError, _reason: &str) {
        if !passes(error.rdkafka_error_code()) {
            tell_error(&error);
        }
    }
}

impl ConsumerContext for Member {}

/// Keeps the first delivery that failed.
#[derive(Clone, Default)]
struct Deliveries(Arc<Mutex<Option<KafkaError>>>);

impl ClientContext for Deliveries {
    fn error(&self, _error: KafkaError, _reason: &str) {}
}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, _opaque: ()) {
        if let Err((error, _)) = result {
            self.0.lock().unwrap().get_or_insert(error.clone());
        }
    }
}

struct Driver {
    common: ClientConfig,
    producers: HashMap<(String, bool), (ThreadedProducer<Deliveries>, Deliveries)>,
    consumer: Option<BaseConsumer<Member>>,
    /// The assignment that was told last.
    told: Vec<(String, i32)>,
    /// The offset after the last record, of each partition that is held.
    positions: HashMap<(String, i32), i64>,
    transactional: Option<(ThreadedProducer<Deliveries>, Deliveries)>,
    inbox: Inbox,
}

/// A record that the member was told of.
#[derive(Clone)]
struct Given {
    place: (String, i32),
    offset: i64,
    key: Option<String>,
    value: String,
    headers: OwnedHeaders,
}

/// Records that the member was told of and that are in no committed transaction.
#[derive(Default)]
struct Inbox {
    records: Vec<Given>,
    next: HashMap<(String, i32), i64>,
    taken: usize,
}

impl Inbox {
    /// Of a record that comes again, after a rebalance, only the first counts.
    fn add(&mut self, record: Given) {
        let next = self.next.entry(record.place.clone()).or_insert(0);
        if record.offset >= *next {
            *next = record.offset + 1;
            self.records.push(record);
        }
    }

    /// All, for the transaction that is open.
    fn take(&mut self) -> Vec<Given> {
        self.taken = self.records.len();
        self.records.clone()
    }

    /// What an aborted transaction had is there again for the next one.
    fn ended(&mut self, committed: bool) {
        if committed {
            self.records.drain(..self.taken);
        }
        self.taken = 0;
    }
}

/// What the library says may be tried again, it is for the application to try again.
fn patiently(call: impl Fn(Timeout) -> Result<(), KafkaError>) -> Outcome<()> {
    loop {
        match call(Timeout::After(Duration::from_secs(30))) {
            Err(KafkaError::Transaction(error)) if error.is_retriable() => {}
            other => return Ok(other?),
        }
    }
}

/// Sends the records that a command asks for, and waits until all are delivered.
fn send_all(
    (producer, deliveries): &(ThreadedProducer<Deliveries>, Deliveries),
    command: &Value,
) -> Outcome<()> {
    let topic = command["topic"].as_str().unwrap_or_default();
    let prefix = command["prefix"].as_str().unwrap_or_default();
    let size = command["size"].as_u64().unwrap_or(0) as usize;
    let nulls = command["nulls"].as_bool().unwrap_or(false);
    for n in 0..command["count"].as_u64().unwrap_or(0) {
        let name = format!("{prefix}key {n}");
        let mut value = format!("{prefix}{n} ");
        let missing = size.saturating_sub(value.len());
        value.extend("=+".chars().cycle().take(missing));
        let number = n.to_string();
        let headers = OwnedHeaders::new()
            .insert(Header { key: "n", value: Some(&number) })
            .insert(Header { key: "from", value: Some(prefix) });
        let mut record = BaseRecord::<String, String>::to(topic).headers(headers);
        if let Some(partitions) = command["partitions"].as_u64() {
            record = record.partition((n % partitions) as i32);
        }
        if !(nulls && n % 10 == 9) {
            record = record.key(&name);
        }
        if !(nulls && n % 10 == 8) {
            record = record.payload(&value);
        }
        producer.send(record).map_err(|(error, _)| error)?;
    }
    delivered(producer, deliveries)
}

fn delivered(producer: &ThreadedProducer<Deliveries>, deliveries: &Deliveries) -> Outcome<()> {
    producer.flush(Duration::from_secs(60))?;
    match deliveries.0.lock().unwrap().take() {
        Some(error) => Err(error.into()),
        None => Ok(()),
    }
}

fn pairs(list: &TopicPartitionList) -> Vec<(String, i32)> {
    let mut all: Vec<_> =
        list.elements().iter().map(|each| (each.topic().to_owned(), each.partition())).collect();
    all.sort();
    all
}

impl Driver {
    fn new(address: &str) -> Self {
        let mut common = ClientConfig::new();
        common
            .set("bootstrap.servers", address)
            .set("topic.metadata.refresh.interval.ms", "1000")
            .set("reconnect.backoff.max.ms", "500")
            .set("log_level", "0");
        Driver {
            common,
            producers: HashMap::new(),
            consumer: None,
            told: Vec::new(),
            positions: HashMap::new(),
            transactional: None,
            inbox: Inbox::default(),
        }
    }

    fn produce(&mut self, command: &Value) -> Outcome<()> {
        let codec = command["codec"].as_str().unwrap_or("none").to_owned();
        let idempotent = command["idempotent"].as_bool().unwrap_or(false);
        let key = (codec.clone(), idempotent);
        if !self.producers.contains_key(&key) {
            let deliveries = Deliveries::default();
            let producer = self
                .common
                .clone()
                .set("compression.type", codec)
                .set("enable.idempotence", idempotent.to_string())
                .set("linger.ms", "20")
                .create_with_context(deliveries.clone())?;
            self.producers.insert(key.clone(), (producer, deliveries));
        }
        send_all(&self.producers[&key], command)
    }

    fn init(&mut self, command: &Value) -> Outcome<()> {
        let deliveries = Deliveries::default();
        let producer: ThreadedProducer<Deliveries> = self
            .common
            .clone()
            .set("transactional.id", command["transactionalId"].as_str().unwrap_or_default())
            .set("transaction.timeout.ms", command["timeoutMs"].to_string())
            .set("linger.ms", "20")
            .create_with_context(deliveries.clone())?;
        patiently(|timeout| producer.init_transactions(timeout))?;
        self.transactional = Some((producer, deliveries));
        Ok(())
    }

    fn transactor(&self) -> Outcome<&(ThreadedProducer<Deliveries>, Deliveries)> {
        self.transactional.as_ref().ok_or_else(|| "it has no transactional id".into())
    }

    fn transform(&mut self, command: &Value) -> Outcome<()> {
        while (self.inbox.records.len() as u64) < command["count"].as_u64().unwrap_or(0) {
            self.poll();
        }
        let records = self.inbox.take();
        let (producer, deliveries) = self.transactor()?;
        let topic = command["topic"].as_str().unwrap_or_default();
        let mut last = HashMap::new();
        for given in &records {
            let value = given.value.to_uppercase();
            let mut record = BaseRecord::<String, String>::to(topic)
                .partition(given.place.1)
                .headers(given.headers.clone())
                .payload(&value);
            if let Some(key) = &given.key {
                record = record.key(key);
            }
            producer.send(record).map_err(|(error, _)| error)?;
            last.insert(given.place.clone(), given.offset + 1);
        }
        delivered(producer, deliveries)?;
        let mut offsets = TopicPartitionList::new();
        for ((topic, partition), at) in &last {
            offsets.add_partition_offset(topic, *partition, Offset::Offset(*at))?;
        }
        let group = self.member()?.group_metadata().ok_or("no metadata of the group")?;
        patiently(|timeout| producer.send_offsets_to_transaction(&offsets, &group, timeout))
    }

    fn end(&mut self, commit: bool) -> Outcome<()> {
        let (producer, _) = self.transactor()?;
        patiently(|timeout| {
            if commit {
                producer.commit_transaction(timeout)
            } else {
                producer.abort_transaction(timeout)
            }
        })?;
        self.inbox.ended(commit);
        Ok(())
    }

    fn join(&mut self, command: &Value) -> Outcome<()> {
        let mut config = self.common.clone();
        config
            .set("group.id", command["group"].as_str().unwrap_or_default())
            .set("auto.offset.reset", "earliest")
            .set("enable.auto.commit", "false")
            .set("fetch.wait.max.ms", "500")
            .set("isolation.level", command["isolation"].as_str().unwrap_or("read_uncommitted"));
        match command["protocol"].as_str() {
            Some("consumer") => {
                config.set("group.protocol", "consumer");
            }
            protocol => {
                let cooperative = protocol == Some("cooperative");
                config
                    .set("session.timeout.ms", command["sessionTimeoutMs"].to_string())
                    .set("heartbeat.interval.ms", "250")
                    .set(
                        "partition.assignment.strategy",
                        if cooperative { "cooperative-sticky" } else { "range" },
                    );
            }
        }
        if let Some(instance) = command["instanceId"].as_str() {
            config.set("group.instance.id", instance);
        }
        let consumer: BaseConsumer<Member> = config.create_with_context(Member)?;
        let topics: Vec<&str> = match command["pattern"].as_str() {
            Some(pattern) => vec![pattern],
            None => command["topics"].as_array().into_iter().flatten().filter_map(Value::as_str).collect(),
        };
        consumer.subscribe(&topics)?;
        self.told.clear();
        self.positions.clear();
        self.inbox = Inbox::default();
        self.consumer = Some(consumer);
        Ok(())
    }

    fn member(&self) -> Outcome<&BaseConsumer<Member>> {
        self.consumer.as_ref().ok_or_else(|| "it is in no group".into())
    }

    fn commit(&self) -> Outcome<()> {
        let mut offsets = TopicPartitionList::new();
        for ((topic, partition), at) in &self.positions {
            offsets.add_partition_offset(topic, *partition, Offset::Offset(*at))?;
        }
        Ok(self.member()?.commit(&offsets, CommitMode::Sync)?)
    }

    fn committed(&self, command: &Value) -> Outcome<Value> {
        let mut wanted = TopicPartitionList::new();
        for (topic, partition) in pairs(&self.member()?.assignment()?) {
            if command["topics"].as_array().is_some_and(|topics| topics.iter().any(|each| each == &topic)) {
                wanted.add_partition(&topic, partition);
            }
        }
        let found = self.member()?.committed_offsets(wanted, Duration::from_secs(10))?;
        let offsets = found.elements().into_iter().map(|each| {
            let at = if let Offset::Offset(at) = each.offset() { at } else { -1 };
            (format!("{}-{}", each.topic(), each.partition()), json!(at))
        });
        Ok(Value::Object(offsets.collect()))
    }

    /// Lets the member live for a moment.
    fn poll(&mut self) {
        let Some(consumer) = &self.consumer else { return };
        let message = consumer.poll(Duration::from_millis(20));
        let held = consumer.assignment().map(|list| pairs(&list)).unwrap_or_default();
        if held != self.told {
            self.positions.retain(|key, _| held.contains(key));
            let names: Vec<_> = held.iter().map(|(topic, number)| format!("{topic}-{number}")).collect();
            write(json!({"event": "assignment", "partitions": names}));
            self.told = held;
        }
        match message {
            None => {}
            Some(Err(error)) => {
                if !passes(error.rdkafka_error_code()) {
                    tell_error(&error);
                }
            }
            Some(Ok(record)) => {
                let headers: serde_json::Map<_, _> = record
                    .headers()
                    .into_iter()
                    .flat_map(|headers| headers.iter())
                    .map(|header| (header.key.to_owned(), json!(text(header.value))))
                    .collect();
                write(json!({
                    "event": "record", "topic": record.topic(), "partition": record.partition(),
                    "offset": record.offset(), "key": text(record.key()), "value": text(record.payload()),
                    "headers": headers,
                }));
                let place = (record.topic().to_owned(), record.partition());
                self.inbox.add(Given {
                    place: place.clone(),
                    offset: record.offset(),
                    key: text(record.key()),
                    value: text(record.payload()).unwrap_or_default(),
                    headers: record.headers().map(|headers| headers.detach()).unwrap_or_default(),
                });
                self.positions.insert(place, record.offset() + 1);
            }
        }
    }

    fn obey(&mut self, command: &Value) -> Outcome<Value> {
        match command["cmd"].as_str() {
            Some("produce") => self.produce(command)?,
            Some("join") => self.join(command)?,
            Some("commit") => self.commit()?,
            Some("committed") => return self.committed(command),
            // Its end is what closes a consumer.
            Some("leave") => self.consumer = None,
            Some("init") => self.init(command)?,
            Some("begin") => self.transactor()?.0.begin_transaction()?,
            Some("send") => {
                let transactor = self.transactor()?;
                send_all(transactor, command).map_err(|error| match transactor.0.client().fatal_error() {
                    Some((code, text)) => format!("{error}; {code}: {text}").into(),
                    None => error,
                })?
            }
            Some("transform") => self.transform(command)?,
            Some("end") => self.end(command["commit"].as_bool().unwrap_or(false))?,
            _ => return Err("no such command".into()),
        }
        Ok(json!({}))
    }
}

fn main() {
    let address = std::env::args().nth(1).expect("the broker's address");
    let mut driver = Driver::new(&address);
    let (lines, commands) = channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if lines.send(line).is_err() {
                return;
            }
        }
    });
    write(json!({
        "event": "ready",
        "client": format!("rdkafka for Rust, librdkafka {}", rdkafka::util::get_rdkafka_version().1),
        "codecs": ["none", "gzip", "snappy", "lz4", "zstd"],
        "protocols": ["classic", "cooperative", "consumer"],
        "features": ["idempotent", "transactions", "transactions-consumer", "static", "static-consumer", "regex", "regex-later"],
    }));
    loop {
        let line = if driver.consumer.is_some() {
            match commands.try_recv() {
                Ok(line) => line,
                Err(TryRecvError::Empty) => {
                    driver.poll();
                    continue;
                }
                Err(TryRecvError::Disconnected) => return,
            }
        } else {
            match commands.recv() {
                Ok(line) => line,
                Err(RecvError) => return,
            }
        };
        let command: Value = serde_json::from_str(&line).expect("a command");
        match driver.obey(&command) {
            Ok(result) => write(json!({"reply": command["id"], "result": result})),
            Err(error) => write(json!({"reply": command["id"], "error": error.to_string()})),
        }
    }
}
