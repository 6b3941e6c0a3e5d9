// One panel's inside with Grafana's own components. Drawn here: lines of annotations.
import {
  createTheme,
  DataFrame,
  dateTime,
  getDisplayValueAlignmentFactors,
  getFieldDisplayValues,
  renderMarkdown,
  TimeRange,
} from '@grafana/data';
import { BarGauge, BigValue, Gauge, TimeSeries, UPlotConfigBuilder, VizRepeater } from '@grafana/ui';
import { TableNG } from '@grafana/ui/unstable';
import { useLayoutEffect } from 'react';

import { scoped } from './frames';
import { Heatmap } from './heatmap';
import { page } from './input';

export const theme = createTheme({ colors: { mode: page.dark ? 'dark' : 'light' } });
const timeRange: TimeRange = {
  from: dateTime(page.from_ms),
  to: dateTime(page.to_ms),
  raw: { from: dateTime(page.from_ms), to: dateTime(page.to_ms) },
};

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
      disableWideLayout={options.wideLayout === false}
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

function Density({ panel, frames, width, height }: Drawn) {
  return <Heatmap {...{ panel, frames, width, height, theme, timeRange, marks: page.marks }} />;
}

export const KINDS: Record<string, (drawn: Drawn) => JSX.Element> = {
  timeseries: Graph,
  stat: Stat,
  bargauge: Bars,
  gauge: Dials,
  table: Sheet,
  text: Words,
  heatmap: Density,
};
