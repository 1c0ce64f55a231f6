import { signal } from '@preact/signals';
import { type ComponentType } from 'preact';

/** A component that is loaded when it is first shown. `Waiting` is shown until then, `Failed` if it cannot be loaded. */
export function lazy<P extends object>(load: () => Promise<ComponentType<P>>, Waiting: ComponentType, Failed: ComponentType<{ retry: () => void }>) {
  const loaded = signal<ComponentType<P> | undefined>(undefined);
  const failed = signal(false);
  let begun = false;
  const begin = (): void => {
    begun = true;
    failed.value = false;
    load().then((component) => (loaded.value = component), () => (failed.value = true));
  };
  return function Lazy(props: P) {
    if (!begun) begin();
    const Component = loaded.value;
    if (Component) return <Component {...props} />;
    return failed.value ? <Failed retry={begin} /> : <Waiting />;
  };
}
