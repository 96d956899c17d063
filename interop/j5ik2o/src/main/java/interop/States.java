package interop;

import akka.Done;
import akka.actor.ActorSystem;
import akka.persistence.state.DurableStateStoreRegistry;
import akka.persistence.state.javadsl.DurableStateUpdateStore;
import akka.persistence.state.javadsl.GetObjectResult;
import java.util.concurrent.CompletionStage;

/**
 * The plugin's store of durable states, through Akka's own interface: nothing here is compiled
 * against the plugin's module, which need not be there.
 *
 * <p>Promises: a request throws {@link Failure}, unsupported, where the module is absent.
 */
final class States {
    private static final String PLUGIN = "j5ik2o.dynamo-db-state";

    private final ActorSystem system;

    States(ActorSystem system) {
        this.system = system;
    }

    CompletionStage<GetObjectResult<Object>> get(String id) {
        return plugin().getObject(id);
    }

    CompletionStage<Done> put(String id, long revision, Object value, String tag) {
        return plugin().upsertObject(id, revision, value, tag);
    }

    /** Whatever its revision. */
    CompletionStage<Done> delete(String id) {
        return plugin().deleteObject(id);
    }

    CompletionStage<Done> delete(String id, long revision) {
        return plugin().deleteObject(id, revision);
    }

    /** Whether there is a store to ask. */
    boolean available() {
        return system.settings().config().hasPath(PLUGIN + ".class");
    }

    /** Only when it is asked for: it opens a client of its own. */
    @SuppressWarnings("unchecked")
    private DurableStateUpdateStore<Object> plugin() {
        if (!available()) {
            throw new Failure("unsupported", "built without durable state; see profiles in pom.xml", null);
        }
        return DurableStateStoreRegistry.get(system).getDurableStateStoreFor(DurableStateUpdateStore.class, PLUGIN);
    }
}
