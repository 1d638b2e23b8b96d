import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.*;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.*;
import org.apache.kafka.coordinator.group.assignor.*;
import org.apache.kafka.coordinator.group.modern.*;

/**
 * Apache Kafka's own assignors over lines of text. A case: `case uniform|range`, `topic ID PARTITIONS`,
 * `member ID INSTANCE|- TOPIC,TOPIC`, `owned TOPIC PARTITION,PARTITION` (of the member before it), `end`. The answer:
 * `MEMBER TOPIC PARTITION,PARTITION` for all, and `end NANOSECONDS`.
 */
public class AssignorOracle {
  private static String assignor;
  private static Map<Uuid, Integer> topics;
  private static Map<String, Member> members;

  private record Member(String instance, Set<Uuid> topics, Map<Uuid, Set<Integer>> owned) {}

  public static void main(String[] args) throws Exception {
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    Member last = null;
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      String[] word = line.split(" ");
      switch (word[0]) {
        case "case" -> {
          assignor = word[1];
          topics = new LinkedHashMap<>();
          members = new LinkedHashMap<>();
        }
        case "topic" -> topics.put(Uuid.fromString(word[1]), Integer.parseInt(word[2]));
        case "member" -> {
          Set<Uuid> subscribed = new HashSet<>();
          if (word.length > 3) for (String id : word[3].split(",")) subscribed.add(Uuid.fromString(id));
          last = new Member(word[2].equals("-") ? null : word[2], subscribed, new HashMap<>());
          members.put(word[1], last);
        }
        case "owned" -> {
          Set<Integer> partitions = new HashSet<>();
          for (String p : word[2].split(",")) partitions.add(Integer.parseInt(p));
          last.owned.put(Uuid.fromString(word[1]), partitions);
        }
        default -> answer();
      }
    }
  }

  private static void answer() {
    Map<String, MemberSubscriptionAndAssignmentImpl> spec = new HashMap<>();
    Map<Uuid, Map<Integer, String>> inverted = new HashMap<>();
    Set<Set<Uuid>> kinds = new HashSet<>();
    members.forEach((id, member) -> {
      kinds.add(member.topics);
      member.owned.forEach((topic, partitions) -> {
        for (int p : partitions) inverted.computeIfAbsent(topic, t -> new HashMap<>()).put(p, id);
      });
      spec.put(id, new MemberSubscriptionAndAssignmentImpl(
        Optional.empty(), Optional.ofNullable(member.instance), member.topics, new Assignment(member.owned)));
    });
    SubscriptionType type = kinds.size() > 1 ? SubscriptionType.HETEROGENEOUS : SubscriptionType.HOMOGENEOUS;
    ConsumerGroupPartitionAssignor kafka =
      assignor.equals("range") ? new RangeAssignor() : new UniformAssignor();
    SubscribedTopicDescriber describer = new SubscribedTopicDescriber() {
      public int numPartitions(Uuid topic) {
        return topics.getOrDefault(topic, -1);
      }

      public Set<String> racksForPartition(Uuid topic, int partition) {
        return Set.of();
      }
    };
    long began = System.nanoTime();
    GroupAssignment given = kafka.assign(new GroupSpecImpl(spec, type, inverted), describer);
    long took = System.nanoTime() - began;
    StringBuilder out = new StringBuilder();
    given.members().forEach((id, assignment) -> assignment.partitions().forEach((topic, partitions) -> {
      out.append(id).append(' ').append(topic).append(' ');
      int index = 0;
      for (int p : new TreeSet<>(partitions)) out.append(index++ == 0 ? "" : ",").append(p);
      out.append('\n');
    }));
    System.out.print(out.append("end ").append(took).append('\n'));
    System.out.flush();
  }
}
