package interop;

import java.util.List;
import java.util.concurrent.CompletionStage;
import org.apache.pekko.actor.ActorSystem;
import org.apache.pekko.persistence.dynamodb.query.javadsl.DynamoDBReadJournal;
import org.apache.pekko.persistence.query.EventEnvelope;
import org.apache.pekko.persistence.query.PersistenceQuery;
import org.apache.pekko.stream.javadsl.Sink;
import scala.jdk.javaapi.CollectionConverters;

/** The plugin's read journal; interop/akka replaces this class. */
final class ReadJournal {
    private final ActorSystem system;

    ReadJournal(ActorSystem system) {
        this.system = system;
    }

    CompletionStage<List<EventEnvelope>> events(String persistenceId, long from, long to) {
        return plugin().currentEventsByPersistenceId(persistenceId, from, to).runWith(Sink.seq(), system);
    }

    CompletionStage<List<String>> ids(boolean scan) {
        if (!scan) {
            return plugin().currentPersistenceIds().runWith(Sink.seq(), system);
        }
        return plugin()
                .currentPersistenceIdsByPageScan()
                .mapConcat(CollectionConverters::asJava)
                .runWith(Sink.seq(), system);
    }

    /** Called only when needed, because the read journal opens its own client. */
    private DynamoDBReadJournal plugin() {
        return PersistenceQuery.get(system).getReadJournalFor(DynamoDBReadJournal.class, "dynamodb-read-journal");
    }
}
