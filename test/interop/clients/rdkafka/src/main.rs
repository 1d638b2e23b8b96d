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
        let (producer, deliveries) = &self.producers[&key];
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
            if !(nulls && n % 10 == 9) {
                record = record.key(&name);
            }
            if !(nulls && n % 10 == 8) {
                record = record.payload(&value);
            }
            producer.send(record).map_err(|(error, _)| error)?;
        }
        producer.flush(Duration::from_secs(60))?;
        match deliveries.0.lock().unwrap().take() {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }

    fn join(&mut self, command: &Value) -> Outcome<()> {
        let mut config = self.common.clone();
        config
            .set("group.id", command["group"].as_str().unwrap_or_default())
            .set("auto.offset.reset", "earliest")
            .set("enable.auto.commit", "false")
            .set("fetch.wait.max.ms", "500");
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
        "features": ["idempotent", "static", "static-consumer", "regex", "regex-later"],
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
