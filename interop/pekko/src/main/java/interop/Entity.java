package interop;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;
import org.apache.pekko.actor.Props;
import org.apache.pekko.persistence.AbstractPersistentActor;
import org.apache.pekko.persistence.DeleteMessagesFailure;
import org.apache.pekko.persistence.DeleteMessagesSuccess;
import org.apache.pekko.persistence.DeleteSnapshotFailure;
import org.apache.pekko.persistence.DeleteSnapshotSuccess;
import org.apache.pekko.persistence.DeleteSnapshotsFailure;
import org.apache.pekko.persistence.DeleteSnapshotsSuccess;
import org.apache.pekko.persistence.Recovery;
import org.apache.pekko.persistence.RecoveryCompleted;
import org.apache.pekko.persistence.SaveSnapshotFailure;
import org.apache.pekko.persistence.SaveSnapshotSuccess;
import org.apache.pekko.persistence.SnapshotMetadata;
import org.apache.pekko.persistence.SnapshotOffer;

/**
 * A persistent actor for one request: it recovers, does its work and stops.
 *
 * <p>Guarantees: always completes its future, with a {@link Failure} or with the entity itself,
 * whose fields no longer change then. Each entity is a new incarnation, as after a restart, so it
 * sees earlier writes of others.
 */
final class Entity extends AbstractPersistentActor {
    record Recovered(long sequenceNr, Object event) {}

    record Rejected(long sequenceNr, String cause) {}

    private static final Object NEXT = new Object();

    final List<Recovered> events = new ArrayList<>();
    SnapshotOffer offer;
    long highest;
    final List<Long> persisted = new ArrayList<>();
    final List<Rejected> rejected = new ArrayList<>();
    SnapshotMetadata saved;

    private final String id;
    private final Recovery recovery;
    private final Consumer<Entity> work;
    private final CompletableFuture<Entity> done;
    private final Queue<Object> toPersist = new ArrayDeque<>();
    private int unanswered;
    private Long snapshotAt;

    private Entity(String id, Recovery recovery, Consumer<Entity> work, CompletableFuture<Entity> done) {
        this.id = id;
        this.recovery = recovery;
        this.work = work;
        this.done = done;
    }

    /** The work runs after recovery; it ends by calling {@link #done()}. */
    static Props props(String id, Recovery recovery, Consumer<Entity> work, CompletableFuture<Entity> done) {
        return Props.create(Entity.class, () -> new Entity(id, recovery, work, done));
    }

    void done() {
        done.complete(this);
        getContext().stop(getSelf());
    }

    private void failed(String kind, Throwable cause) {
        done.completeExceptionally(new Failure(kind, cause));
        getContext().stop(getSelf());
    }

    /** Catches exceptions here: a supervisor would restart the actor and repeat the work. */
    private void doWork() {
        try {
            work.accept(this);
        } catch (RuntimeException e) {
            failed("failed", e);
        }
    }

    /** Persists one event at a time, each after the journal has confirmed the previous one. */
    void persistEach(List<Object> all) {
        toPersist.addAll(all);
        getSelf().tell(NEXT, getSelf());
    }

    void persistTogether(List<Object> all) {
        unanswered = all.size();
        persistAll(all, event -> answered());
    }

    private void persistNext() {
        if (toPersist.isEmpty()) {
            done();
        } else {
            unanswered = 1;
            persist(toPersist.remove(), event -> answered());
        }
    }

    private void answered() {
        persisted.add(lastSequenceNr());
        goOn();
    }

    private void goOn() {
        unanswered -= 1;
        if (unanswered == 0) {
            getSelf().tell(NEXT, getSelf());
        }
    }

    /** Saves a snapshot at any sequence number, as an actor that had reached it would. */
    void save(Object snapshot, Long at) {
        snapshotAt = at;
        saveSnapshot(snapshot);
    }

    @Override
    public long snapshotSequenceNr() {
        return snapshotAt == null ? lastSequenceNr() : snapshotAt;
    }

    @Override
    public String persistenceId() {
        return id;
    }

    @Override
    public Recovery recovery() {
        return recovery;
    }

    @Override
    public Receive createReceiveRecover() {
        return receiveBuilder()
                .match(SnapshotOffer.class, it -> offer = it)
                .match(RecoveryCompleted.class, it -> {
                    highest = lastSequenceNr();
                    doWork();
                })
                .matchAny(event -> events.add(new Recovered(lastSequenceNr(), event)))
                .build();
    }

    @Override
    public Receive createReceive() {
        return receiveBuilder()
                .matchEquals(NEXT, it -> persistNext())
                .match(DeleteMessagesSuccess.class, it -> done())
                .match(DeleteMessagesFailure.class, it -> failed("delete-failure", it.cause()))
                .match(SaveSnapshotSuccess.class, it -> {
                    saved = it.metadata();
                    done();
                })
                .match(SaveSnapshotFailure.class, it -> failed("save-snapshot-failure", it.cause()))
                .match(DeleteSnapshotSuccess.class, it -> done())
                .match(DeleteSnapshotFailure.class, it -> failed("delete-snapshot-failure", it.cause()))
                .match(DeleteSnapshotsSuccess.class, it -> done())
                .match(DeleteSnapshotsFailure.class, it -> failed("delete-snapshot-failure", it.cause()))
                .build();
    }

    // After this callback and the next one, the actor stops by itself.
    @Override
    public void onRecoveryFailure(Throwable cause, scala.Option<Object> event) {
        done.completeExceptionally(new Failure("recovery-failure", cause));
    }

    @Override
    public void onPersistFailure(Throwable cause, Object event, long sequenceNr) {
        done.completeExceptionally(new Failure("persist-failure", cause));
    }

    /** Continues with the next event, as classic actors do; the sequence number stays used. */
    @Override
    public void onPersistRejected(Throwable cause, Object event, long sequenceNr) {
        rejected.add(new Rejected(sequenceNr, Failure.chain(cause)));
        goOn();
    }

    /** Completes the future whatever stopped the actor, so that no caller waits forever. */
    @Override
    public void postStop() throws Exception {
        super.postStop();
        done.completeExceptionally(new Failure("stopped", "the actor stopped unexpectedly", null));
    }
}
