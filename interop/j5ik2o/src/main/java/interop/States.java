package interop;

import akka.Done;
import akka.actor.ActorSystem;
import akka.persistence.state.DurableStateStoreRegistry;
import akka.persistence.state.javadsl.DurableStateUpdateStore;
import akka.persistence.state.javadsl.GetObjectResult;
import com.typesafe.config.Config;
import java.util.Locale;
import java.util.concurrent.CompletionStage;

/**
 * Accesses the plugin's durable state store through Akka's own interface, so that this compiles
 * without the plugin's module.
 *
 * <p>Guarantees: a request throws {@link Failure}, unsupported, if the module is missing.
 */
final class States {
    private static final String PLUGIN = "j5ik2o.dynamo-db-state";
    private static final String FACTORIES = "com.github.j5ik2o.akka.persistence.dynamodb.state.scaladsl.";

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

    /** Deletes a state at any revision. */
    CompletionStage<Done> delete(String id) {
        return plugin().deleteObject(id);
    }

    CompletionStage<Done> delete(String id, long revision) {
        return plugin().deleteObject(id, revision);
    }

    /** Whether the module for this version of the client is present. */
    static boolean available(String clientVersion) {
        String factory = FACTORIES + clientVersion.toUpperCase(Locale.ROOT) + "ScalaDurableStateUpdateStoreFactory";
        try {
            Class.forName(factory, false, States.class.getClassLoader());
            return true;
        } catch (ClassNotFoundException e) {
            return false;
        }
    }

    /** Called only when needed, because the store opens its own client. */
    @SuppressWarnings("unchecked")
    private DurableStateUpdateStore<Object> plugin() {
        Config config = system.settings().config();
        String version = PLUGIN + ".dynamo-db-client.client-version";
        if (!config.hasPath(version) || !available(config.getString(version))) {
            throw new Failure("unsupported", "built without durable state; see profiles in pom.xml", null);
        }
        return DurableStateStoreRegistry.get(system).getDurableStateStoreFor(DurableStateUpdateStore.class, PLUGIN);
    }
}
