# The small install: simulation, heuristics, the shipped network, what-ifs and reports.
#   docker build -t decima .
#   docker run --rm -v LOGS:/logs:ro decima whatif /logs
FROM python:3.11-slim
WORKDIR /src
COPY . .
RUN pip install --no-cache-dir --constraint constraints.txt . && rm -rf /src
RUN useradd --create-home decima
USER decima
WORKDIR /home/decima
ENTRYPOINT ["decima"]
