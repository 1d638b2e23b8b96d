/** What a copy took. */
export interface CopyReport {
  readonly partitions: number;
  /** Hard links, and the bytes behind them. */
  readonly linkedFiles: number;
  readonly linkedBytes: number;
  readonly copiedFiles: number;
  readonly copiedBytes: number;
}
