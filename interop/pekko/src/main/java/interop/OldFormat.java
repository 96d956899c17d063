package interop;

import com.amazonaws.services.dynamodbv2.model.AttributeValue;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.Map;
import org.apache.pekko.actor.ActorRef;
import org.apache.pekko.persistence.PersistentRepr;
import org.apache.pekko.persistence.serialization.Snapshot;

/**
 * Writes items as versions 1.0 and 1.1 did: the whole event or snapshot is in one attribute, pay.
 * The current plugin reads this format but no longer writes it. The core's own serializers still
 * produce the bytes.
 */
final class OldFormat {
    private final Session session;

    OldFormat(Session session) {
        this.session = session;
    }

    /** An event's index in its batch, and the last index; null for an event written alone. */
    record Batch(long index, long last) {}

    void event(String persistenceId, long sequenceNr, Object event, Batch batch) {
        PersistentRepr repr =
                PersistentRepr.apply(event, sequenceNr, persistenceId, "", false, ActorRef.noSender(), "writer-1");
        Map<String, AttributeValue> attributes = new HashMap<>();
        attributes.put("pay", bytes(repr));
        if (batch != null) {
            attributes.put("idx", Tables.numeral(batch.index()));
            attributes.put("cnt", Tables.numeral(batch.last()));
        }
        session.tables().putEvent(persistenceId, sequenceNr, attributes);
    }

    void snapshot(String persistenceId, long sequenceNr, long timestamp, Object snapshot) {
        session.tables().putSnapshot(
                persistenceId,
                sequenceNr,
                Map.of("ts", Tables.numeral(timestamp), "pay", bytes(new Snapshot(snapshot))));
    }

    private AttributeValue bytes(Object object) {
        byte[] bytes = session.serialization().serialize(object).get();
        return new AttributeValue().withB(ByteBuffer.wrap(bytes));
    }
}
