// The panels of one dashboard with Grafana's own components: chrome, graphs, values, bars, tables, field config and
// transformations are @grafana/ui and @grafana/data. Drawn here, in Grafana's colours: lines of annotations, the heatmap
// (its panel is in no package), the bar above the grid.
import {
  applyFieldOverrides,
  cacheFieldDisplayNames,
  createTheme,
  DataFrame,
  Field,
  FieldConfigSource,
  FieldType,
  dateTime,
  getDisplayValueAlignmentFactors,
  getFieldDisplayValues,
  renderMarkdown,
  standardFieldConfigEditorRegistry,
  standardTransformers,
  standardTransformersRegistry,
  ThemeContext,
  TimeRange,
  transformDataFrame,
} from '@grafana/data';
import {
  BarGauge,
  BigValue,
  Gauge,
  GlobalStyles,
  PanelChrome,
  PanelContextProvider,
  TimeSeries,
  UPlotConfigBuilder,
  VizRepeater,
} from '@grafana/ui';
import { TableNG } from '@grafana/ui/unstable';
import { useLayoutEffect } from 'react';
import { createRoot } from 'react-dom/client';
import { lastValueFrom } from 'rxjs';

import 'uplot/dist/uPlot.min.css';

import { Heatmap } from './heatmap';
import { framesOf, registryFor, Result } from './frames';
import { shrink } from './shrink';

type Mark = { time_ms: number; text: string; color: string };
type Placed = { panel: any; box: { left: number; top: number; width: number; height: number }; results: Result[] };
type Page = {
  title: string;
  links: string[];
  variables: { label: string; shown: string }[];
  from_ms: number;
  to_ms: number;
  range_text: string;
  width: number;
  height: number;
  dark: boolean;
  marks: Mark[];
  panels: Placed[];
};

const page: Page = (window as any).specloadPage;
const theme = createTheme({ colors: { mode: page.dark ? 'dark' : 'light' } });
const timeRange: TimeRange = {
  from: dateTime(page.from_ms),
  to: dateTime(page.to_ms),
  raw: { from: dateTime(page.from_ms), to: dateTime(page.to_ms) },
};
const MARGIN = 16;

standardFieldConfigEditorRegistry.setInit(() => []);
// two of them share an id: an old name of joinByField
const transformers = new Map(Object.values(standardTransformers).map((each: any) => [each.id, each]));
standardTransformersRegistry.setInit(() =>
  [...transformers.values()].map((each) => ({ id: each.id, name: each.name, transformation: each }) as any)
);

function scoped(text: string, vars?: any): string {
  return text.replace(/\$\{(__[\w.]+)\}|\$(__\w+)/g, (whole, a, b) => {
    const found = (a ?? b).split('.').reduce((at: any, key: string) => at?.[key]?.value ?? at?.[key], vars);
    return found === undefined ? whole : String(found);
  });
}

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

// Vertical dashed lines with a triangle below, as Grafana draws annotations.
function Marks({ config }: { config: UPlotConfigBuilder }) {
  useLayoutEffect(() => {
    config.addHook('draw', (u) => {
      const { ctx, bbox } = u;
      ctx.save();
      for (const mark of page.marks) {
        const x = Math.round(u.valToPos(mark.time_ms, 'x', true));
        if (x < bbox.left || x > bbox.left + bbox.width) {
          continue;
        }
        const foot = bbox.top + bbox.height;
        ctx.strokeStyle = ctx.fillStyle = theme.visualization.getColorByName(mark.color);
        ctx.lineWidth = devicePixelRatio;
        ctx.setLineDash([5, 5]);
        ctx.beginPath();
        ctx.moveTo(x, bbox.top);
        ctx.lineTo(x, foot);
        ctx.stroke();
        ctx.beginPath();
        ctx.moveTo(x, foot - 1);
        ctx.lineTo(x - 4 * devicePixelRatio, foot + 6 * devicePixelRatio);
        ctx.lineTo(x + 4 * devicePixelRatio, foot + 6 * devicePixelRatio);
        ctx.fill();
      }
      ctx.restore();
    });
  }, [config]);
  return null;
}

function Graph({ panel, frames, width, height }: Drawn) {
  return (
    <TimeSeries
      frames={frames}
      width={width}
      height={height}
      timeRange={timeRange}
      timeZone="utc"
      options={panel.options}
      legend={{ showLegend: true, displayMode: 'list', placement: 'bottom', calcs: [], ...panel.options?.legend }}
    >
      {(config) => <Marks config={config} />}
    </TimeSeries>
  );
}

type Drawn = { panel: any; frames: DataFrame[]; width: number; height: number };

function displayValues({ panel, frames }: Drawn, sparkline: boolean) {
  return getFieldDisplayValues({
    fieldConfig: panel.fieldConfig,
    reduceOptions: { calcs: ['lastNotNull'], ...panel.options?.reduceOptions },
    replaceVariables: scoped,
    theme,
    data: frames,
    sparkline,
    percentChange: panel.options?.showPercentChange,
    timeZone: 'utc',
  });
}

function Repeated({ drawn, sparkline, grid, one }: { drawn: Drawn; sparkline: boolean; grid: boolean; one: any }) {
  const orientation = drawn.panel.options?.orientation ?? 'auto';
  return (
    <VizRepeater
      getValues={() => displayValues(drawn, sparkline)}
      getAlignmentFactors={getDisplayValueAlignmentFactors}
      renderValue={one}
      width={drawn.width}
      height={drawn.height}
      source={drawn.frames}
      renderCounter={0}
      itemSpacing={3}
      autoGrid={grid}
      orientation={orientation}
      {...(grid ? {} : { minVizHeight: 16, maxVizHeight: 300, minVizWidth: 8 })}
    />
  );
}

function Stat(drawn: Drawn) {
  const { options = {} } = drawn.panel;
  const one = ({ value, width, height, count, alignmentFactors }: any) => (
    <BigValue
      value={value.display}
      count={count}
      sparkline={value.sparkline}
      colorMode={options.colorMode ?? 'value'}
      graphMode={options.graphMode ?? 'area'}
      justifyMode={options.justifyMode ?? 'auto'}
      textMode={options.textMode ?? 'auto'}
      text={options.text}
      disableWideLayout={!options.wideLayout}
      alignmentFactors={alignmentFactors}
      width={width}
      height={height}
      theme={theme}
    />
  );
  return <Repeated drawn={drawn} sparkline={(options.graphMode ?? 'area') !== 'none'} grid one={one} />;
}

function Bars(drawn: Drawn) {
  const { options = {} } = drawn.panel;
  const one = ({ value, width, height, orientation, alignmentFactors, count }: any) => (
    <BarGauge
      value={value.display}
      field={value.field}
      display={value.view?.getFieldDisplayProcessor(value.colIndex)}
      orientation={orientation}
      width={width}
      height={height}
      theme={theme}
      text={options.text}
      itemSpacing={8}
      displayMode={options.displayMode ?? 'gradient'}
      showUnfilled={options.showUnfilled ?? true}
      valueDisplayMode={options.valueMode}
      namePlacement={options.namePlacement}
      alignmentFactors={count > 1 ? alignmentFactors : undefined}
      isOverflow={false}
    />
  );
  return <Repeated drawn={drawn} sparkline={false} grid={false} one={one} />;
}

function Dials(drawn: Drawn) {
  const { options = {} } = drawn.panel;
  const one = ({ value, width, height }: any) => (
    <Gauge
      value={value.display}
      field={value.field}
      width={width}
      height={height}
      theme={theme}
      text={options.text}
      showThresholdLabels={!!options.showThresholdLabels}
      showThresholdMarkers={options.showThresholdMarkers ?? true}
    />
  );
  return <Repeated drawn={drawn} sparkline={false} grid one={one} />;
}

function Sheet({ panel, frames, width, height }: Drawn) {
  if (frames.length > 1) {
    throw new Error(`panel ${panel.title}: a table of ${frames.length} frames shows one at a time; merge them`);
  }
  return (
    <TableNG
      data={frames[0]}
      width={width}
      height={height}
      noHeader={panel.options?.showHeader === false}
      initialSortBy={panel.options?.sortBy}
      cellHeight={panel.options?.cellHeight}
      enableVirtualization={false}
      fieldConfig={panel.fieldConfig}
      timeRange={timeRange}
    />
  );
}

function Words({ panel }: Drawn) {
  return (
    <div className="markdown-html" dangerouslySetInnerHTML={{ __html: renderMarkdown(panel.options?.content ?? '') }} />
  );
}

function Map2({ panel, frames, width, height }: Drawn) {
  return <Heatmap {...{ panel, frames, width, height, theme, timeRange, marks: page.marks }} />;
}

const KINDS: Record<string, (drawn: Drawn) => JSX.Element> = {
  timeseries: Graph,
  stat: Stat,
  bargauge: Bars,
  gauge: Dials,
  table: Sheet,
  text: Words,
  heatmap: Map2,
};

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
