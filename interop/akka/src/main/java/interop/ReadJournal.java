package interop;

import akka.actor.ActorSystem;
import akka.persistence.query.EventEnvelope;
import java.util.List;
import java.util.concurrent.CompletionStage;

/** Replaces the class of interop/pekko: akka-persistence-dynamodb 1.1.2 has no read journal. */
final class ReadJournal {
    ReadJournal(ActorSystem system) {}

    CompletionStage<List<EventEnvelope>> events(String persistenceId, long from, long to) {
        throw new Failure("unsupported", "this version of the plugin has no read journal", null);
    }

    CompletionStage<List<String>> ids(boolean scan) {
        throw new Failure("unsupported", "this version of the plugin has no read journal", null);
    }
}
