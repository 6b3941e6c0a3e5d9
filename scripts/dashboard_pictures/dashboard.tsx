// The panels of one dashboard with Grafana's own components: chrome, graphs, values, bars, tables, field config and
// transformations are @grafana/ui and @grafana/data. Drawn here, in Grafana's colours: lines of annotations, the heatmap
// (its panel is in no package), the bar above the grid.
import {
  applyFieldOverrides,
  cacheFieldDisplayNames,
  DataFrame,
  Field,
  FieldConfigSource,
  FieldType,
  standardFieldConfigEditorRegistry,
  standardTransformers,
  standardTransformersRegistry,
  ThemeContext,
  transformDataFrame,
} from '@grafana/data';
import { GlobalStyles, PanelChrome, PanelContextProvider } from '@grafana/ui';
import { createRoot } from 'react-dom/client';
import { lastValueFrom } from 'rxjs';
import 'uplot/dist/uPlot.min.css';

import { framesOf, registryFor, scoped } from './frames';
import { page, Placed } from './input';
import { KINDS, theme } from './panels';
import { shrink } from './shrink';

const MARGIN = 16;

standardFieldConfigEditorRegistry.setInit(() => []);
// two of them share an id: an old name of joinByField
const transformers = new Map(Object.values(standardTransformers).map((each: any) => [each.id, each]));
standardTransformersRegistry.setInit(() =>
  [...transformers.values()].map((each) => ({ id: each.id, name: each.name, transformation: each }) as any)
);

async function prepared(placed: Placed): Promise<DataFrame[]> {
  const { panel } = placed;
  const frames = framesOf(placed.results, panel.type === 'heatmap');
  const source: FieldConfigSource = { defaults: {}, overrides: [], ...panel.fieldConfig };
  const overridden = (data: DataFrame[]) =>
    applyFieldOverrides({
      data,
      fieldConfig: source,
      fieldConfigRegistry: registryFor(source, panel.type),
      replaceVariables: scoped,
      theme,
      timeZone: 'utc',
    });
  const transformations = panel.transformations ?? [];
  const unknown = transformations.filter((t: any) => !standardTransformersRegistry.getIfExists(t.id));
  if (unknown.length) {
    throw new Error(`panel ${panel.title}: no transformation ${unknown.map((t: any) => t.id)} in @grafana/data`);
  }
  const transformed = await lastValueFrom(transformDataFrame(transformations, frames, { interpolate: scoped } as any));
  const shown = overridden(transformed);
  cacheFieldDisplayNames(shown);
  return shown;
}

const hasData = (frames: DataFrame[]) =>
  frames.some((frame) => frame.fields.some((f: Field) => f.type !== FieldType.time && f.values.some((v) => v != null)));

function PanelBox({ placed, frames }: { placed: Placed; frames: DataFrame[] }) {
  const { panel, box } = placed;
  const style = { position: 'absolute', ...box } as const;
  if (panel.type === 'row') {
    return (
      <div style={{ ...style, display: 'flex', alignItems: 'center', fontWeight: 500, color: theme.colors.text.primary }}>
        <span style={{ width: 16, color: theme.colors.text.secondary }}>{panel.collapsed ? '›' : '⌄'}</span>
        {panel.title}
        {panel.collapsed && (
          <span style={{ color: theme.colors.text.secondary, fontWeight: 400, marginLeft: 8 }}>
            ({panel.panels.length} panels)
          </span>
        )}
      </div>
    );
  }
  const Kind = KINDS[panel.type];
  if (!Kind) {
    throw new Error(`panel ${panel.title}: nothing here draws a ${panel.type}`);
  }
  const empty = panel.type !== 'text' && !hasData(frames);
  return (
    <div style={style} data-panel={panel.title} data-empty={empty}>
      <PanelChrome
        title={panel.title}
        description={panel.description}
        displayMode={panel.transparent ? 'transparent' : 'default'}
        padding={panel.type === 'table' ? 'none' : 'md'}
        width={box.width}
        height={box.height}
      >
        {(width, height) =>
          empty ? (
            <div style={{ height, display: 'grid', placeItems: 'center', color: theme.colors.text.secondary }}>
              No data
            </div>
          ) : (
            <Kind panel={panel} frames={frames} width={width} height={height} />
          )
        }
      </PanelChrome>
    </div>
  );
}

function Chip({ children }: { children: any }) {
  const { border, background } = theme.colors;
  return (
    <span
      style={{ border: `1px solid ${border.medium}`, background: background.primary, borderRadius: 2, padding: '5px 8px' }}
    >
      {children}
    </span>
  );
}

function Bar() {
  const row = { display: 'flex', gap: 8, alignItems: 'center', flexWrap: 'wrap' } as const;
  return (
    <header style={{ marginBottom: 12 }}>
      <div style={{ ...row, marginBottom: 10 }}>
        <span style={{ fontSize: 18, fontWeight: 500, marginRight: 'auto' }}>{page.title}</span>
        {page.links.map((title) => (
          <Chip key={title}>{title}</Chip>
        ))}
        <Chip>{page.range_text}</Chip>
      </div>
      <div style={row}>
        {page.variables.map(({ label, shown }) => (
          <span key={label}>
            <span style={{ color: theme.colors.text.secondary, fontSize: 12, marginRight: 6 }}>{label}</span>
            <Chip>{shown}</Chip>
          </span>
        ))}
      </div>
    </header>
  );
}

function Dashboard({ frames }: { frames: DataFrame[][] }) {
  const silent: any = { getStream: () => ({ pipe: () => ({ subscribe: () => ({ unsubscribe() {} }) }) }) };
  silent.publish = () => undefined;
  return (
    <ThemeContext.Provider value={theme}>
      <GlobalStyles />
      <PanelContextProvider value={{ eventsScope: 'global', eventBus: silent }}>
        <div id="dashboard" style={{ width: page.width + 2 * MARGIN, padding: MARGIN, background: theme.colors.background.canvas }}>
          <Bar />
          <div style={{ position: 'relative', height: page.height }}>
            {page.panels.map((placed, i) => (
              <PanelBox key={i} placed={placed} frames={frames[i]} />
            ))}
          </div>
        </div>
      </PanelContextProvider>
    </ThemeContext.Provider>
  );
}

async function main() {
  await Promise.all([400, 500].map((weight) => document.fonts.load(`${weight} 12px Inter`)));
  const frames = await Promise.all(page.panels.map(prepared));
  createRoot(document.getElementById('root')!).render(<Dashboard frames={frames} />);
  await new Promise((done) => setTimeout(done, 500));
  document.documentElement.dataset.drawn = 'yes';
}

(window as any).shrink = shrink;
main().catch((error) => {
  console.error(error);
  document.documentElement.dataset.drawn = 'failed';
});
