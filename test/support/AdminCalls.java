import com.fasterxml.jackson.databind.ObjectMapper;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.quota.*;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Makes the calls of Kafka's Admin against one broker, with members in a group of each protocol. Arguments: its address and
 * its log directory. A line of output is `{"call", "result"}`: all that the result's accessors return, futures awaited, an
 * error as `!Class`, and ids, ports, sizes and the metadata log's offsets by their names only.
 *
 * Left out are calls of what has its own tests or is not served: transactions and their producers, ACLs, delegation tokens,
 * share groups, streams groups.
 */
public class AdminCalls {
  /** Accessors whose values are a broker's own, or come from the clock. */
  private static final Set<String> HIDDEN = Set.of(
      "topicId", "clusterId", "port", "size", "totalBytes", "usableBytes", "consumerId", "documentation", "directoryId",
      "replicaDirectoryId", "logEndOffset", "highWatermark", "finalizedFeaturesEpoch", "lastFetchTimestamp",
      "lastCaughtUpTimestamp", "replicaId$", "leaderEpoch$");
  /** Lists whose order says something. */
  private static final Set<String> ORDERED = Set.of("replicas", "isr", "synonyms", "addingReplicas", "removingReplicas");
  private static final Set<String> NO_ACCESSORS = Set.of("hashCode", "toString", "getClass", "notify", "notifyAll", "clone");
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final Duration PATIENCE = Duration.ofSeconds(30);

  private interface Call {
    Object make() throws Exception;
  }

  private final String address;
  private final String logDir;
  private final Admin admin;

  private AdminCalls(String address, String logDir) {
    this.address = address;
    this.logDir = logDir;
    Map<String, Object> config = new HashMap<>(Map.of("bootstrap.servers", address, "request.timeout.ms", 15_000, "default.api.timeout.ms", 20_000));
    admin = Admin.create(config);
  }

  public static void main(String[] args) throws Exception {
    AdminCalls calls = new AdminCalls(args[0], args[1]);
    calls.topics();
    calls.configs();
    calls.records();
    calls.replicas();
    calls.cluster();
    calls.users();
    calls.groups();
    calls.deletions();
    calls.admin.close(Duration.ofSeconds(5));
    System.out.flush();
    Runtime.getRuntime().halt(0);
  }

  // ---- Rendering

  private void call(String name, Call call) throws Exception {
    Object result;
    try {
      result = render("", call.make());
    } catch (Exception error) {
      result = failure(error);
    }
    System.out.println(JSON.writeValueAsString(new TreeMap<>(Map.of("call", name, "result", result))));
  }

  /** A call that changes metadata; Apache Kafka's controller answers before its broker knows. */
  private void change(String name, Call call) throws Exception {
    call(name, call);
    settle();
  }

  private void settle() throws Exception {
    long written = admin.describeMetadataQuorum().quorumInfo().get().highWatermark();
    // The epoch of the finalized features is the offset up to which the broker has read the metadata log.
    while (admin.describeFeatures().featureMetadata().get().finalizedFeaturesEpoch().orElse(0L) < written - 1) {
      Thread.sleep(20);
    }
    Thread.sleep(100);
  }

  private static String failure(Throwable error) {
    Throwable cause = error;
    while ((cause instanceof ExecutionException || cause instanceof CompletionException
        || cause instanceof InvocationTargetException) && cause.getCause() != null) {
      cause = cause.getCause();
    }
    return "!" + cause.getClass().getSimpleName();
  }

  private Object render(String name, Object value) throws Exception {
    if (value instanceof KafkaFuture<?> future) {
      try {
        return render(name, future.get(30, TimeUnit.SECONDS));
      } catch (Exception error) {
        return failure(error);
      }
    }
    if (value == null) return "null";
    if (value instanceof Optional<?> some) return some.isPresent() ? render(name, some.get()) : "none";
    if (value instanceof OptionalLong some) return some.isPresent() ? render(name, some.getAsLong()) : "none";
    if (value instanceof OptionalInt some) return some.isPresent() ? render(name, some.getAsInt()) : "none";
    if (value instanceof Throwable error) return failure(error);
    if (value instanceof Uuid id) return id.equals(Uuid.ZERO_UUID) ? "zero" : "<id>";
    if (HIDDEN.contains(name)) return "<" + name + ">";
    if (value instanceof Number || value instanceof Boolean) return value;
    if (value instanceof byte[] bytes) return new String(bytes, StandardCharsets.UTF_8);
    if (value instanceof Map<?, ?> map) {
      TreeMap<String, Object> entries = new TreeMap<>();
      for (var entry : map.entrySet()) entries.put(text(render("", entry.getKey())), render("", entry.getValue()));
      return entries;
    }
    if (value instanceof Collection<?> items) {
      List<Object> rendered = new ArrayList<>();
      for (Object item : items) rendered.add(render("", item));
      if (!ORDERED.contains(name)) rendered.sort(Comparator.comparing(AdminCalls::text));
      return rendered;
    }
    if (value instanceof String || value instanceof Enum || value instanceof TopicPartition) {
      return value.toString().replace(logDir, "<log-dir>").replace(address, "<address>");
    }
    if (!value.getClass().getName().startsWith("org.apache.kafka.")) return value.getClass().getSimpleName();
    TreeMap<String, Object> fields = new TreeMap<>();
    for (Method method : value.getClass().getMethods()) {
      String accessor = method.getName();
      if (method.getParameterCount() > 0 || Modifier.isStatic(method.getModifiers())) continue;
      if (method.getReturnType() == void.class || NO_ACCESSORS.contains(accessor)) continue;
      method.setAccessible(true);
      try {
        fields.put(accessor, render(accessor, method.invoke(value)));
      } catch (InvocationTargetException error) {
        fields.put(accessor, failure(error));
      }
    }
    return fields;
  }

  private static String text(Object rendered) {
    try {
      return rendered instanceof String text ? text : JSON.writeValueAsString(rendered);
    } catch (com.fasterxml.jackson.core.JsonProcessingException error) {
      throw new IllegalStateException(error);
    }
  }

  // ---- Calls

  private static TopicPartition at(String topic, int partition) {
    return new TopicPartition(topic, partition);
  }

  private static ConfigResource resource(ConfigResource.Type type, String name) {
    return new ConfigResource(type, name);
  }

  private void topics() throws Exception {
    Map<String, String> config = Map.of("retention.ms", "-1", "cleanup.policy", "compact");
    NewTopic a = new NewTopic("a", 3, (short) 1).configs(Map.of("retention.ms", "-1"));
    change("createTopics validateOnly", () -> admin.createTopics(List.of(a), new CreateTopicsOptions().validateOnly(true)));
    change("createTopics", () -> {
      CreateTopicsResult result = admin.createTopics(
          List.of(a, new NewTopic("b", Map.of(0, List.of(1), 1, List.of(1))).configs(config),
              new NewTopic("c", Optional.empty(), Optional.empty()), new NewTopic("d", 1, (short) 1)));
      return List.of(result, result.numPartitions("b"), result.replicationFactor("b"), result.topicId("c"));
    });
    change("createTopics that fails", () -> admin.createTopics(List.of(
        a, new NewTopic("no/name", 1, (short) 1), new NewTopic("none", 0, (short) 1), new NewTopic("two", 1, (short) 2),
        new NewTopic("config", 1, (short) 1).configs(Map.of("bogus", "1")), new NewTopic("elsewhere", Map.of(0, List.of(7))))));
    call("listTopics", () -> admin.listTopics());
    call("listTopics internal", () -> admin.listTopics(new ListTopicsOptions().listInternal(true)).names());
    call("describeTopics", () -> admin.describeTopics(List.of("a", "b", "c", "none")).topicNameValues());
    call("describeTopics small pages", () -> admin.describeTopics(TopicCollection.ofTopicNames(List.of("a", "b")),
        new DescribeTopicsOptions().partitionSizeLimitPerResponse(1)).topicNameValues());
    call("describeTopics operations", () -> admin.describeTopics(TopicCollection.ofTopicNames(List.of("d")),
        new DescribeTopicsOptions().includeAuthorizedOperations(true)).topicNameValues());
    Uuid id = admin.describeTopics(List.of("b")).allTopicNames().get().get("b").topicId();
    call("describeTopics by id", () -> admin.describeTopics(TopicCollection.ofTopicIds(List.of(id))).topicIdValues());
    call("describeTopics by an unknown id",
        () -> admin.describeTopics(TopicCollection.ofTopicIds(List.of(new Uuid(7, 7)))).allTopicIds());
    change("createPartitions", () -> admin.createPartitions(Map.of(
        "c", NewPartitions.increaseTo(4), "d", NewPartitions.increaseTo(2, List.of(List.of(1))), "a",
        NewPartitions.increaseTo(2), "none", NewPartitions.increaseTo(2))));
    change("createPartitions validateOnly", () -> admin.createPartitions(Map.of("a", NewPartitions.increaseTo(9),
        "b", NewPartitions.increaseTo(3, List.of(List.of(1, 2)))), new CreatePartitionsOptions().validateOnly(true)));
    call("describeTopics after createPartitions", () -> admin.describeTopics(List.of("a", "c", "d")).allTopicNames());
  }

  private AlterConfigsResult alter(ConfigResource where, boolean validateOnly, String key, String value,
      AlterConfigOp.OpType op) {
    return admin.incrementalAlterConfigs(Map.of(where, List.of(new AlterConfigOp(new ConfigEntry(key, value), op))),
        new AlterConfigsOptions().validateOnly(validateOnly));
  }

  private void configs() throws Exception {
    ConfigResource topic = resource(ConfigResource.Type.TOPIC, "a");
    ConfigResource broker = resource(ConfigResource.Type.BROKER, "1");
    ConfigResource brokers = resource(ConfigResource.Type.BROKER, "");
    ConfigResource logger = resource(ConfigResource.Type.BROKER_LOGGER, "1");
    ConfigResource group = resource(ConfigResource.Type.GROUP, "g");
    ConfigResource metrics = resource(ConfigResource.Type.CLIENT_METRICS, "m");
    List<ConfigResource> all = List.of(topic, broker, brokers, group, metrics);
    var set = AlterConfigOp.OpType.SET;
    var delete = AlterConfigOp.OpType.DELETE;
    change("incrementalAlterConfigs set", () -> alter(topic, false, "segment.ms", "100000000", set));
    change("incrementalAlterConfigs append", () -> alter(topic, false, "cleanup.policy", "compact", AlterConfigOp.OpType.APPEND));
    call("describeConfigs after append", () -> admin.describeConfigs(List.of(topic)).all());
    change("incrementalAlterConfigs subtract",
        () -> alter(topic, false, "cleanup.policy", "compact", AlterConfigOp.OpType.SUBTRACT));
    change("incrementalAlterConfigs delete", () -> alter(topic, false, "segment.ms", null, delete));
    change("incrementalAlterConfigs validateOnly", () -> alter(topic, true, "segment.ms", "100", set));
    change("incrementalAlterConfigs a bad value", () -> alter(topic, true, "segment.ms", "x", set));
    change("incrementalAlterConfigs an unknown key", () -> alter(topic, false, "bogus", "1", set));
    change("incrementalAlterConfigs append to no list",
        () -> alter(topic, false, "segment.ms", "1", AlterConfigOp.OpType.APPEND));
    change("incrementalAlterConfigs broker", () -> alter(broker, false, "log.cleaner.threads", "2", set));
    change("incrementalAlterConfigs a fixed key", () -> alter(broker, false, "node.id", "2", set));
    change("incrementalAlterConfigs brokers", () -> alter(brokers, false, "message.max.bytes", "2000000", set));
    change("incrementalAlterConfigs group", () -> alter(group, false, "consumer.session.timeout.ms", "50000", set));
    change("incrementalAlterConfigs a bad group value", () -> alter(group, false, "consumer.session.timeout.ms", "1", set));
    change("incrementalAlterConfigs client metrics", () -> alter(metrics, false, "interval.ms", "60000", set));
    change("incrementalAlterConfigs logger", () -> alter(logger, false, "root", "ERROR", set));
    change("incrementalAlterConfigs an unknown level", () -> alter(logger, false, "root", "LOUD", set));
    change("incrementalAlterConfigs a topic that is none",
        () -> alter(resource(ConfigResource.Type.TOPIC, "none"), false, "segment.ms", "100000000", set));
    for (ConfigResource each : all) {
      String name = each.type() + (each.name().isEmpty() ? " default" : "");
      // A broker's own values are compared by the tests of kafka-configs.
      call("describeConfigs " + name, () -> entries(each, each == broker));
    }
    call("describeConfigs logger", () -> {
      List<String> root = new ArrayList<>();
      for (ConfigEntry entry : admin.describeConfigs(List.of(logger)).all().get().get(logger).entries()) {
        if (entry.name().equals("root")) root.add(entry.value() + " " + entry.source() + " " + entry.isReadOnly());
      }
      return root;
    });
    call("describeConfigs that fails", () -> {
      Map<String, Object> failures = new TreeMap<>();
      for (var type : List.of(ConfigResource.Type.TOPIC, ConfigResource.Type.BROKER, ConfigResource.Type.BROKER_LOGGER)) {
        failures.put(type.name(), admin.describeConfigs(List.of(resource(type, "7"))).all());
      }
      return failures;
    });
    call("listConfigResources", () -> admin.listConfigResources());
    for (ConfigResource.Type type : ConfigResource.Type.values()) {
      call("listConfigResources " + type,
          () -> admin.listConfigResources(Set.of(type), new ListConfigResourcesOptions()));
    }
    call("clientInstanceId", () -> admin.clientInstanceId(Duration.ofSeconds(5)));
    for (var undo : Map.of(broker, "log.cleaner.threads", brokers, "message.max.bytes", group,
        "consumer.session.timeout.ms", metrics, "interval.ms", logger, "root").entrySet()) {
      String type = undo.getKey().type() + undo.getKey().name();
      change("incrementalAlterConfigs delete " + type, () -> alter(undo.getKey(), false, undo.getValue(), null, delete));
    }
  }

  private Object entries(ConfigResource of, boolean dynamicOnly) throws Exception {
    var options = new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true);
    Collection<ConfigEntry> entries = admin.describeConfigs(List.of(of), options).all().get().get(of).entries();
    if (!dynamicOnly) return entries;
    return entries.stream().filter((entry) -> entry.source().name().startsWith("DYNAMIC")).toList();
  }

  private void records() throws Exception {
    Map<String, Object> config = Map.of("bootstrap.servers", address);
    try (var producer = new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer())) {
      for (int i = 0; i < 30; i++) {
        // The largest timestamp is not the last one.
        long timestamp = 1_700_000_000_000L + (i < 24 ? i * 1000 : -i);
        byte[] value = ("value " + i).getBytes(StandardCharsets.UTF_8);
        producer.send(new ProducerRecord<>("a", i % 2, timestamp, value, value)).get();
      }
    }
    List<TopicPartition> partitions = List.of(at("a", 0), at("a", 1), at("a", 2));
    Map<String, OffsetSpec> specs = new TreeMap<>(Map.of("earliest", OffsetSpec.earliest(), "latest", OffsetSpec.latest(),
        "maxTimestamp", OffsetSpec.maxTimestamp(), "forTimestamp", OffsetSpec.forTimestamp(1_700_000_010_500L),
        "forTimestamp later", OffsetSpec.forTimestamp(1_900_000_000_000L), "earliestLocal", OffsetSpec.earliestLocal(),
        "latestTiered", OffsetSpec.latestTiered(), "earliestPendingUpload", OffsetSpec.earliestPendingUpload()));
    for (int round = 0; round < 2; round++) {
      String when = round == 0 ? "" : " after deleteRecords";
      for (var spec : specs.entrySet()) {
        call("listOffsets " + spec.getKey() + when, () -> {
          Map<TopicPartition, OffsetSpec> wanted = new HashMap<>();
          for (TopicPartition partition : partitions) wanted.put(partition, spec.getValue());
          return admin.listOffsets(wanted);
        });
      }
      if (round > 0) break;
      call("deleteRecords", () -> admin.deleteRecords(
          Map.of(at("a", 0), RecordsToDelete.beforeOffset(5), at("a", 1), RecordsToDelete.beforeOffset(-1))));
      call("deleteRecords that fails", () -> admin.deleteRecords(Map.of(
          at("a", 0), RecordsToDelete.beforeOffset(1_000), at("b", 0), RecordsToDelete.beforeOffset(0))).lowWatermarks());
    }
    call("listOffsets read committed", () -> admin.listOffsets(Map.of(at("a", 0), OffsetSpec.latest()),
        new ListOffsetsOptions(IsolationLevel.READ_COMMITTED)));
    call("listOffsets of a topic that is none", () -> admin.listOffsets(Map.of(at("none", 0), OffsetSpec.latest()),
        new ListOffsetsOptions().timeoutMs(2_000)));
  }

  private void replicas() throws Exception {
    call("describeLogDirs", () -> admin.describeLogDirs(List.of(1)));
    call("describeReplicaLogDirs", () -> admin.describeReplicaLogDirs(
        List.of(new TopicPartitionReplica("a", 0, 1), new TopicPartitionReplica("none", 0, 1))));
    call("alterReplicaLogDirs", () -> admin.alterReplicaLogDirs(Map.of(
        new TopicPartitionReplica("a", 0, 1), logDir, new TopicPartitionReplica("a", 1, 1), "/elsewhere",
        new TopicPartitionReplica("none", 0, 1), logDir)).values().entrySet().stream()
        .collect(java.util.stream.Collectors.toMap((entry) -> entry.getKey().toString(), Map.Entry::getValue)));
    call("electLeaders", () -> admin.electLeaders(ElectionType.PREFERRED, Set.of(at("a", 0), at("none", 0))).partitions());
    call("electLeaders all", () -> admin.electLeaders(ElectionType.PREFERRED, null).partitions());
    call("electLeaders unclean", () -> admin.electLeaders(ElectionType.UNCLEAN, Set.of(at("a", 0))));
    call("alterPartitionReassignments", () -> admin.alterPartitionReassignments(Map.of(
        at("a", 0), Optional.of(new NewPartitionReassignment(List.of(1))), at("a", 1), Optional.empty(), at("a", 2),
        Optional.of(new NewPartitionReassignment(List.of(1, 7))), at("none", 0),
        Optional.of(new NewPartitionReassignment(List.of(1))))).values());
    call("listPartitionReassignments", () -> admin.listPartitionReassignments());
    call("listPartitionReassignments of some", () -> admin.listPartitionReassignments(Set.of(at("a", 0), at("none", 0))));
  }

  private void cluster() throws Exception {
    call("describeCluster", () -> admin.describeCluster());
    call("describeCluster fenced", () -> admin.describeCluster(
        new DescribeClusterOptions().includeFencedBrokers(true).includeAuthorizedOperations(true)));
    call("describeMetadataQuorum", () -> {
      QuorumInfo info = admin.describeMetadataQuorum().quorumInfo().get();
      return List.of(info.leaderId(), info.voters(), info.observers(), info.nodes().keySet());
    });
    call("describeFeatures", () -> {
      FeatureMetadata features = admin.describeFeatures().featureMetadata().get();
      Map<String, String> ranges = new HashMap<>();
      features.finalizedFeatures().forEach((name, range) -> ranges.put("finalized " + name, range.toString()));
      features.supportedFeatures().forEach((name, range) -> ranges.put("supported " + name, range.toString()));
      return ranges;
    });
    call("updateFeatures", () -> admin.updateFeatures(Map.of("metadata.version",
        new FeatureUpdate((short) 33, FeatureUpdate.UpgradeType.UPGRADE)), new UpdateFeaturesOptions()));
    for (var type : FeatureUpdate.UpgradeType.values()) {
      if (type == FeatureUpdate.UpgradeType.UNKNOWN) continue;
      call("updateFeatures validateOnly " + type, () -> admin.updateFeatures(
          Map.of("metadata.version", new FeatureUpdate((short) 32, type)), new UpdateFeaturesOptions().validateOnly(true)));
    }
    call("updateFeatures of none", () -> admin.updateFeatures(
        Map.of("bogus", new FeatureUpdate((short) 1, FeatureUpdate.UpgradeType.UPGRADE)), new UpdateFeaturesOptions()));
    call("unregisterBroker", () -> admin.unregisterBroker(42));
    call("unregisterController", () -> admin.unregisterController(42));
    Set<RaftVoterEndpoint> endpoints = Set.of(new RaftVoterEndpoint("CONTROLLER", "127.0.0.1", 1));
    Uuid own = admin.describeMetadataQuorum().quorumInfo().get().voters().get(0).replicaDirectoryId();
    call("addRaftVoter", () -> admin.addRaftVoter(1, own, endpoints));
    call("addRaftVoter of none", () -> admin.addRaftVoter(42, new Uuid(4, 2), endpoints));
    call("addRaftVoter of another cluster", () -> admin.addRaftVoter(42, new Uuid(4, 2), endpoints,
        new AddRaftVoterOptions().setClusterId(Optional.of("another"))));
    call("removeRaftVoter", () -> admin.removeRaftVoter(42, new Uuid(4, 2)));
    call("removeRaftVoter of the last one", () -> admin.removeRaftVoter(1, own));
  }

  private void users() throws Exception {
    var alice = new ClientQuotaEntity(Map.of(ClientQuotaEntity.USER, "alice"));
    var app = new ClientQuotaEntity(Map.of(ClientQuotaEntity.USER, "alice", ClientQuotaEntity.CLIENT_ID, "app"));
    Map<String, String> nobody = new HashMap<>();
    nobody.put(ClientQuotaEntity.USER, null);
    var everyone = new ClientQuotaEntity(nobody);
    var rate = List.of(new ClientQuotaAlteration.Op("producer_byte_rate", 1024.0));
    change("alterClientQuotas", () -> admin.alterClientQuotas(List.of(new ClientQuotaAlteration(alice, rate),
        new ClientQuotaAlteration(app, rate), new ClientQuotaAlteration(everyone, rate))).all());
    change("alterClientQuotas validateOnly", () -> admin.alterClientQuotas(
        List.of(new ClientQuotaAlteration(alice, List.of(new ClientQuotaAlteration.Op("producer_byte_rate", 7.0)))),
        new AlterClientQuotasOptions().validateOnly(true)).all());
    change("alterClientQuotas that fails", () -> admin.alterClientQuotas(
        List.of(new ClientQuotaAlteration(alice, List.of(new ClientQuotaAlteration.Op("bogus", 1.0))))).all());
    change("alterClientQuotas remove", () -> admin.alterClientQuotas(
        List.of(new ClientQuotaAlteration(app, List.of(new ClientQuotaAlteration.Op("producer_byte_rate", null))))).all());
    call("describeClientQuotas", () -> quotas(ClientQuotaFilter.all()));
    var one = List.of(ClientQuotaFilterComponent.ofEntity(ClientQuotaEntity.USER, "alice"));
    call("describeClientQuotas contains", () -> quotas(ClientQuotaFilter.contains(one)));
    call("describeClientQuotas only", () -> quotas(ClientQuotaFilter.containsOnly(one)));
    call("describeClientQuotas default", () -> quotas(
        ClientQuotaFilter.contains(List.of(ClientQuotaFilterComponent.ofDefaultEntity(ClientQuotaEntity.USER)))));
    call("describeClientQuotas of an unknown type", () -> quotas(
        ClientQuotaFilter.contains(List.of(ClientQuotaFilterComponent.ofEntity("bogus", "x")))));
    var sha256 = new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096);
    var sha512 = new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 5000);
    var few = new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 10);
    call("describeUserScramCredentials of none", () -> admin.describeUserScramCredentials());
    change("alterUserScramCredentials", () -> admin.alterUserScramCredentials(List.of(
        new UserScramCredentialUpsertion("alice", sha256, "secret"), new UserScramCredentialUpsertion("alice", sha512, "secret"),
        new UserScramCredentialUpsertion("bob", few, "secret"), new UserScramCredentialDeletion("carol",
        ScramMechanism.SCRAM_SHA_256))));
    call("describeUserScramCredentials", () -> admin.describeUserScramCredentials());
    call("describeUserScramCredentials of some", () -> {
      DescribeUserScramCredentialsResult result = admin.describeUserScramCredentials(List.of("alice", "bob"));
      return List.of(result.users(), result.description("alice"), result.description("bob"));
    });
    change("alterUserScramCredentials delete", () -> admin.alterUserScramCredentials(
        List.of(new UserScramCredentialDeletion("alice", ScramMechanism.SCRAM_SHA_512))));
    call("describeUserScramCredentials after delete", () -> admin.describeUserScramCredentials());
  }

  private Object quotas(ClientQuotaFilter filter) {
    return admin.describeClientQuotas(filter).entities();
  }

  /** A consumer on its own thread. */
  private final class Member {
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final Thread thread;
    private volatile int assigned;

    Member(String group, String protocol, String clientId, String instanceId) {
      Map<String, Object> config = new HashMap<>(Map.of("bootstrap.servers", address, "group.id", group, "group.protocol",
          protocol, "client.id", clientId, "enable.auto.commit", false));
      if (instanceId != null) config.put("group.instance.id", instanceId);
      consumer = new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
      thread = new Thread(this::run);
      thread.start();
    }

    private void run() {
      consumer.subscribe(List.of("a"));
      try (consumer) {
        while (true) {
          consumer.poll(Duration.ofMillis(100));
          assigned = consumer.assignment().size();
        }
      } catch (KafkaException woken) {
        if (!(woken instanceof WakeupException)) System.err.println(woken);
      }
    }

    void close() throws InterruptedException {
      consumer.wakeup();
      thread.join();
    }
  }

  @SuppressWarnings("removal")
  private void groups() throws Exception {
    var members = List.of(new Member("classic", "classic", "classic-1", null),
        new Member("static", "classic", "static-1", "instance"), new Member("modern", "consumer", "modern-1", null));
    long end = System.nanoTime() + PATIENCE.toNanos();
    while (members.stream().anyMatch((member) -> member.assigned < 3)) {
      if (System.nanoTime() > end) throw new IllegalStateException("a member has no assignment");
      Thread.sleep(50);
    }
    List<String> all = List.of("classic", "static", "modern");
    while (!admin.describeConsumerGroups(all).all().get().values().stream()
        .allMatch((group) -> group.groupState() == GroupState.STABLE)) Thread.sleep(50);
    var offsets = Map.of(at("a", 0), new OffsetAndMetadata(7, Optional.of(0), "mark"), at("a", 1), new OffsetAndMetadata(3));
    call("alterConsumerGroupOffsets", () -> admin.alterConsumerGroupOffsets("simple", offsets));
    for (String group : all) {
      call("alterConsumerGroupOffsets of " + group + " with members", () -> admin.alterConsumerGroupOffsets(group, offsets));
    }
    call("alterConsumerGroupOffsets of a topic that is none",
        () -> admin.alterConsumerGroupOffsets("simple", Map.of(at("none", 0), new OffsetAndMetadata(1))));
    call("listConsumerGroupOffsets", () -> {
      var spec = new ListConsumerGroupOffsetsSpec();
      var some = new ListConsumerGroupOffsetsSpec().topicPartitions(List.of(at("a", 1), at("a", 2), at("none", 0)));
      return admin.listConsumerGroupOffsets(Map.of("simple", spec, "classic", spec, "modern", some, "none", spec));
    });
    call("listConsumerGroupOffsets stable", () -> admin.listConsumerGroupOffsets("simple",
        new ListConsumerGroupOffsetsOptions().requireStable(true)));
    call("listGroups", () -> admin.listGroups());
    call("listGroups for consumer groups", () -> admin.listGroups(ListGroupsOptions.forConsumerGroups()));
    for (GroupType type : List.of(GroupType.CLASSIC, GroupType.CONSUMER, GroupType.SHARE)) {
      call("listGroups " + type, () -> admin.listGroups(new ListGroupsOptions().withTypes(Set.of(type))));
    }
    for (GroupState state : List.of(GroupState.STABLE, GroupState.EMPTY, GroupState.DEAD)) {
      call("listGroups " + state, () -> admin.listGroups(new ListGroupsOptions().inGroupStates(Set.of(state))));
    }
    call("listGroups of a protocol", () -> admin.listGroups(new ListGroupsOptions().withProtocolTypes(Set.of("consumer"))));
    call("listConsumerGroups", () -> admin.listConsumerGroups());
    call("listConsumerGroups filtered", () -> admin.listConsumerGroups(
        new ListConsumerGroupsOptions().withTypes(Set.of(GroupType.CLASSIC)).inGroupStates(Set.of(GroupState.STABLE))));
    call("describeConsumerGroups",
        () -> admin.describeConsumerGroups(List.of("classic", "static", "modern", "simple", "none")).describedGroups());
    call("describeConsumerGroups operations", () -> admin.describeConsumerGroups(all,
        new DescribeConsumerGroupsOptions().includeAuthorizedOperations(true)).describedGroups());
    call("describeClassicGroups",
        () -> admin.describeClassicGroups(List.of("classic", "static", "simple", "modern", "none")).describedGroups());
    call("deleteConsumerGroupOffsets", () -> admin.deleteConsumerGroupOffsets("simple", Set.of(at("a", 0))));
    call("deleteConsumerGroupOffsets of a subscribed topic",
        () -> List.of(admin.deleteConsumerGroupOffsets("classic", Set.of(at("a", 0))),
            admin.deleteConsumerGroupOffsets("modern", Set.of(at("a", 0)))));
    call("deleteConsumerGroupOffsets of none", () -> admin.deleteConsumerGroupOffsets("none", Set.of(at("a", 0))));
    call("listConsumerGroupOffsets after delete", () -> admin.listConsumerGroupOffsets("simple"));
    call("deleteConsumerGroups", () -> admin.deleteConsumerGroups(List.of("simple", "none", "classic", "modern")).deletedGroups());
    call("removeMembersFromConsumerGroup of none", () -> admin.removeMembersFromConsumerGroup("static",
        new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("another")))).all());
    // These are away when they are removed, so that they cannot join again: a static member leaves nothing behind but its place.
    members.get(1).close();
    call("removeMembersFromConsumerGroup", () -> admin.removeMembersFromConsumerGroup("static",
        new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("instance")))).all());
    call("describeConsumerGroups after removal", () -> admin.describeConsumerGroups(List.of("static")).describedGroups());
    var everyone = new RemoveMembersFromConsumerGroupOptions();
    everyone.reason("the end");
    call("removeMembersFromConsumerGroup all", () -> List.of(admin.removeMembersFromConsumerGroup("classic", everyone).all(),
        admin.removeMembersFromConsumerGroup("modern", everyone).all()));
    members.get(0).close();
    members.get(2).close();
    call("listGroups at the end", () -> admin.listGroups());
    call("deleteConsumerGroups at the end", () -> admin.deleteConsumerGroups(all).deletedGroups());
    call("listGroups after that", () -> admin.listGroups());
  }

  private void deletions() throws Exception {
    Uuid id = admin.describeTopics(List.of("c")).allTopicNames().get().get("c").topicId();
    change("deleteTopics", () -> admin.deleteTopics(List.of("d", "none")).topicNameValues());
    change("deleteTopics by id", () -> admin.deleteTopics(TopicCollection.ofTopicIds(List.of(id))));
    call("deleteTopics by an unknown id", () -> admin.deleteTopics(TopicCollection.ofTopicIds(List.of(new Uuid(7, 7)))));
    call("listTopics after deleteTopics", () -> admin.listTopics().names());
  }
}
