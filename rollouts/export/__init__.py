"""From a trajectory to what trainers read: chats as JSON lines, Parquet, and data sets in memory."""

from wardian.rollouts.export.dataset import load_dataset as load_dataset
