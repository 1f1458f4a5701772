"""Log a study as a run of MLflow. Only this folder needs the extra `mlflow`."""
